//! Spanner, Figure 6, on processes: the clock uncertainty while time masters, or other nodes, crash
//! and restart.

use super::cluster::{Cluster, within};
use super::sessions::nanos;
use super::{Bench, world};
use crate::workload::connect;
use meridian_figures::Figure;
use meridian_figures::spanner_figure6::{Measured, Part, figure};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_postgres::{Client, SimpleQueryMessage};

/// The number of time masters, or of members that poll each other; two of them may be down.
const MASTERS: usize = 5;
/// The number of measured nodes, which poll the masters.
const DAEMONS: usize = 2;
const AWAY: usize = 2;
/// The error bound of a master's reference, as in the simulator.
const REFERENCE: &str = "10us";
const EVERY: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(30);

/// The source of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Masters,
    Members,
}

pub async fn measure(bench: Bench) -> Result<Figure, String> {
    let all = Duration::from_secs(bench.pick(60, 6));
    let (away, back) = (all / 3, all * 2 / 3);
    let part = |from: Duration, to: Duration, what: &str| Part {
        from_ns: nanos(from),
        to_ns: nanos(to),
        what: what.to_owned(),
    };
    let parts = [
        part(Duration::ZERO, away, "nothing"),
        part(away, back, "2 are killed"),
        part(back, all, "they are started again"),
    ];
    let (mut measured, mut unknown) = (Vec::new(), 0);
    for (setting, time) in [("five masters", Time::Masters), ("none: members ask", Time::Members)] {
        bench.say(&format!("{setting}: nodes start"));
        let mut cluster = start(time).await?;
        let looked_at = match time {
            Time::Masters => MASTERS..MASTERS + DAEMONS,
            Time::Members => AWAY..MASTERS,
        };
        let mut clients = Vec::new();
        for at in looked_at {
            let client =
                within(PATIENCE, "a session is opened", connect::open(&cluster.url(at)?)).await?;
            within(PATIENCE, &format!("node {} knows the time", at + 1), known(&client)).await?;
            clients.push(client);
        }
        bench.say(&format!("{setting}: {} s", all.as_secs()));
        let began = Instant::now();
        let events = async {
            sleep_until(began + away).await;
            (0..AWAY).for_each(|at| cluster.kill(at));
            sleep_until(began + back).await;
            for at in 0..AWAY {
                cluster.restart(at).await?;
            }
            Ok(())
        };
        let (looks, ()) = tokio::try_join!(look(clients, began, all), events)?;
        unknown += looks.iter().filter(|(_, half_width)| half_width.is_none()).count();
        let unsure_ns =
            looks.into_iter().filter_map(|(at, half_width)| Some((at, half_width?))).collect();
        measured.push(Measured { setting, unsure_ns });
    }
    let notes = vec![
        world(&format!("{} nodes, and then {MASTERS}", MASTERS + DAEMONS)),
        format!(
            "First {MASTERS} time masters, whose clocks have a bound of 10 µs, and {DAEMONS} nodes that poll them; then {MASTERS} nodes \
             that trust no clock and poll each other. In the middle two of the five are killed and then started again. ε is uncertainty_ns of \
             SHOW CLOCK, which is read every {} ms on each node that only polls, or that is not killed, also long after the last answer of a master. All \
             have one machine's clock: the uncertainty comes from message delays over loopback, and from the time that processes wait for a core. \
             The paper: several thousand servers, over weeks.",
            EVERY.as_millis()
        ),
        "The paper's figure is a drawing, and its text has no number of ε; §3 says that the delay to the masters is 1 ms of it."
            .to_owned(),
        format!("Samples of a clock that did not know the time: {unknown}."),
    ];
    Ok(figure(&parts, &measured, "ε at any time, ms", notes))
}

async fn start(time: Time) -> Result<Cluster, String> {
    let nodes = MASTERS + if time == Time::Masters { DAEMONS } else { 0 };
    let flags = |at: usize, addresses: &[String]| match time {
        Time::Masters => {
            let masters = ["--time-masters".to_owned(), addresses[..MASTERS].join(",")].to_vec();
            let own = ["--clock-bound", REFERENCE].map(str::to_owned);
            if at < MASTERS { [masters, own.to_vec()].concat() } else { masters }
        }
        Time::Members => vec!["--cluster-time".to_owned()],
    };
    Cluster::start(nodes, flags).await
}

/// Returns ε of the node's own clock, or `None` if it does not know the time. The first row of SHOW
/// CLOCK is the node's own.
async fn half_width_ns(client: &Client) -> Result<Option<u64>, String> {
    let answers =
        client.simple_query("SHOW CLOCK").await.map_err(|error| connect::explain(&error))?;
    let own = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let own = own.ok_or("SHOW CLOCK has no row")?;
    Ok(own.try_get("uncertainty_ns").ok().flatten().and_then(|text| text.parse().ok()))
}

async fn known(client: &Client) -> Result<(), String> {
    while half_width_ns(client).await?.is_none() {
        tokio::time::sleep(EVERY).await;
    }
    Ok(())
}

type Looks = Vec<(u64, Option<u64>)>;

/// Reads the clocks of all nodes at the same times.
async fn look(clients: Vec<Client>, began: Instant, lasts: Duration) -> Result<Looks, String> {
    let mut looking = JoinSet::new();
    for client in clients {
        looking.spawn(async move {
            let (mut looks, mut due) = (Looks::new(), began);
            while due < began + lasts {
                sleep_until(due).await;
                let half_width = within(PATIENCE, "SHOW CLOCK", half_width_ns(&client)).await?;
                looks.push((nanos(began.elapsed()), half_width));
                due += EVERY;
            }
            Ok::<Looks, String>(looks)
        });
    }
    let mut all = Looks::new();
    while let Some(looked) = looking.join_next().await {
        all.extend(looked.map_err(|error| error.to_string())??);
    }
    Ok(all)
}
