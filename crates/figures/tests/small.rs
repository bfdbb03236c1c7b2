//! Tests that each figure can be drawn, at small scale, and that the results behave as the protocol
//! requires.

use meridian_figures::{Effort, Figure, Style, all, draw};

fn small(name: &str) -> Figure {
    let figure = draw(name, Effort::Small, &mut |_| {}).expect("it is known");
    assert_eq!(figure.name, name);
    let columns = figure.table.head.len();
    assert!(
        !figure.table.rows.is_empty() && figure.table.rows.iter().all(|row| row.len() == columns)
    );
    let text = figure.text();
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{text}");
    assert!(figure.table.rows.iter().flatten().all(|cell| text.contains(cell.as_str())));
    is_drawn(&figure);
    figure
}

/// Checks that the plot is XML, and that every series is in its legend, the paper's in open
/// triangles.
fn is_drawn(figure: &Figure) {
    let svg = figure.svg();
    let document = roxmltree::Document::parse(&svg).expect("XML");
    let texts: Vec<&str> =
        document.descendants().filter_map(|node| node.text()).map(str::trim).collect();
    for panel in &figure.panels {
        for series in &panel.series {
            assert!(
                texts.contains(&series.name.as_str()),
                "{} is not in the legend of {}",
                series.name,
                figure.name
            );
            assert!(!series.points.is_empty(), "{} is empty", series.name);
        }
        assert!(texts.contains(&panel.x.label) && texts.contains(&panel.y.label));
        let papers = panel
            .series
            .iter()
            .filter(|series| series.style == Style::Papers)
            .map(|series| series.points.len());
        let triangles = document.descendants().filter(|node| node.has_tag_name("polygon")).count();
        assert!(triangles >= papers.sum(), "{triangles} triangles");
    }
}

/// Returns the values of a measured series, in the order of its points.
fn points(figure: &Figure, panel: usize, name: &str) -> Vec<f64> {
    let series =
        figure.panels[panel].series.iter().find(|series| series.name == name).expect("it is there");
    series.points.iter().map(|(_, value)| *value).collect()
}

#[test]
fn more_participants_never_make_a_commit_faster() {
    let figure = small("spanner_table4");
    let means = points(&figure, 0, "mean, here");
    assert_eq!(means.len(), 4, "1, 2, 5 and 10 participants");
    assert!(means.is_sorted(), "{means:?}");
    let worst = points(&figure, 0, "99th percentile, here");
    assert!(means.iter().zip(&worst).all(|(mean, worst)| mean <= worst), "{means:?} {worst:?}");
    // No commit returns before its commit wait is over.
    assert!(means[0] >= 5.0, "{means:?}");
}

#[test]
fn replicas_cost_throughput_and_give_snapshot_reads() {
    let figure = small("spanner_table3");
    let took = points(&figure, 0, "write, here");
    assert!(took.iter().all(|ms| *ms >= 5.0), "commit wait: {took:?}");
    let (least, most) =
        (took.iter().copied().fold(f64::MAX, f64::min), took.iter().copied().fold(0.0, f64::max));
    assert!(most < 1.5 * least, "replicas do not agree in parallel: {took:?}");
    let exact: f64 = figure.table.rows[0][2]
        .split(' ')
        .next()
        .and_then(|mean| mean.parse().ok())
        .expect("a number");
    assert_eq!(figure.table.rows[0][0], "1D");
    assert!(exact + 2.0 < took[0], "exact clocks must have no commit wait: {exact} {took:?}");
    let snapshots = points(&figure, 1, "snapshot read, here");
    assert!(
        snapshots[1] > 2.5 * snapshots[0] && snapshots[2] > 4.0 * snapshots[0],
        "any replica: {snapshots:?}"
    );
    assert!(points(&figure, 0, "snapshot read, here").iter().all(|ms| *ms < 0.1), "no message");
}

#[test]
fn only_the_leaders_end_is_felt() {
    let figure = small("spanner_figure5");
    let at = |name: &str| points(&figure, 0, name);
    assert!(
        at("non-leader, here")[1..].iter().all(|part| *part > 90.0),
        "{:?}",
        at("non-leader, here")
    );
    // The zone is killed after two seconds, and leases last for three: steps are of a quarter of a
    // second.
    let hard = at("leader-hard, here");
    assert!(
        hard[8 + 1..8 + 11].iter().all(|part| *part == 0.0),
        "reads without a leader: {hard:?}"
    );
    assert!(hard.iter().any(|part| *part > 150.0), "late reads are not caught up: {hard:?}");
    let soft = at("leader-soft, here");
    assert!(soft[8..8 + 20].iter().any(|part| *part > 0.0), "no leader after a handover: {soft:?}");
    let rest = |parts: &[f64]| parts[parts.len() - 4..].iter().sum::<f64>() / 4.0;
    assert!(rest(&soft) > 90.0 && rest(&hard) > 50.0, "{soft:?} {hard:?}");
}

#[test]
fn masters_that_are_far_away_make_clocks_unsure() {
    let figure = small("spanner_figure6");
    let near = points(&figure, 0, "90th percentile, near");
    let far = points(&figure, 1, "90th percentile, five cities");
    // Half of the round trip to a majority, and the sawtooth of a fifth of a second.
    assert!(near[12..].iter().all(|ms| (0.3..1.0).contains(ms)), "{near:?}");
    assert!(far[12..].iter().all(|ms| (10.0..40.0).contains(ms)), "{far:?}");
    assert_eq!(small("spanner_figure6").text(), figure.text(), "the same figure is the same");
}

#[test]
fn over_continents_tapir_pays_for_the_farthest_replica_and_locks_for_each_trip_to_the_leader() {
    let figure = small("tapir_figure10");
    let at = |name: &str| points(&figure, 0, name);
    // Table 1, both ways: the round trip to the farthest replica, and two reads in the client's own
    // region.
    let [us, europe, asia] = [166.6 + 2.0 * 1.2, 262.5 + 2.0 * 0.8, 262.5 + 2.0 * 10.8];
    for name in ["tapir", "tapir-serializable"] {
        for shards in ["1 shard", "2 shards"] {
            for (ours, trips) in
                at(&format!("{name}, {shards}, here")).into_iter().zip([us, europe, asia])
            {
                assert!(
                    (trips..trips + 1.0).contains(&ours),
                    "{name}, {shards}: {ours} and not {trips}"
                );
            }
        }
    }
    // Two reads and the commit at the leader, and the round trip from there to Europe.
    let one = at("spanner, 1 shard, here");
    for (ours, trip) in one.iter().zip([1.2, 111.15, 166.6]) {
        let trips = 3.0 * trip + 111.15;
        assert!((trips..trips + 1.0).contains(ours), "{ours} and not {trips}");
    }
    // As in the paper: beside the leader locks are faster, elsewhere TAPIR is.
    let (tapir, two) = (at("tapir, 1 shard, here"), at("spanner, 2 shards, here"));
    assert!(one[0] < tapir[0]);
    assert!(one[1] > 1.6 * tapir[1] && two[1] > 2.0 * tapir[1], "{one:?} {two:?} {tapir:?}");
    assert!(one[2] > 2.1 * tapir[2] && two[2] > 2.5 * tapir[2], "{one:?} {two:?} {tapir:?}");
    assert_eq!(small("tapir_figure10").text(), figure.text(), "the same figure is the same");
}

/// Returns the numbers of a table's column, in the order of the modes none, hybrid, commit_wait.
fn column(figure: &Figure, name: &str) -> Vec<f64> {
    let at = figure.table.head.iter().position(|head| head == name).expect("a column");
    let number = |row: &Vec<String>| row[at].split(' ').next().and_then(|text| text.parse().ok());
    figure.table.rows.iter().map(|row| number(row).expect("a number")).collect()
}

#[test]
fn without_a_disk_or_replicas_commit_wait_is_two_orders_slower_and_hybrid_costs_nothing() {
    let figure = small("hybridtime_figure2");
    let means = column(&figure, "mean ms");
    let [none, hybrid, waits] = means[..] else { panic!("three modes: {means:?}") };
    assert!((0.8..1.25).contains(&(hybrid / none)), "hybrid waits for nothing: {means:?}");
    assert!(hybrid < 1.0 && (50.0..500.0).contains(&(waits / hybrid)), "{means:?}");
    // Twice the clock error, from 11.5 to 16.7 ms.
    assert!((23.0..35.0).contains(&waits), "{means:?}");
    let waiting = column(&figure, "waiting");
    assert!(waiting[..2] == [0.0, 0.0] && waiting[2] >= 95.0, "{waiting:?}");
    let errors = points(&figure, 0, "clock error, here");
    assert!(errors.iter().all(|ms| (11.5..=16.7).contains(ms)), "{errors:?}");
    assert!(errors.iter().any(|ms| *ms != errors[0]), "the clock error changes: {errors:?}");
    // The latency follows it.
    let over_time = points(&figure, 0, "commit_wait, here");
    let fold = |all: &[f64], by: fn(f64, f64) -> f64| all.iter().copied().reduce(by).expect("some");
    let spread = |all: &[f64]| fold(all, f64::max) - fold(all, f64::min);
    assert!(spread(&over_time) > spread(&errors), "{over_time:?} {errors:?}");
    assert_eq!(small("hybridtime_figure2").text(), figure.text(), "the same figure is the same");
}

#[test]
fn every_percentile_of_commit_wait_is_far_above_those_of_the_other_modes() {
    let figure = small("hybridtime_figure3");
    let [none, hybrid, waits] =
        ["none", "hybrid", "commit_wait"].map(|mode| points(&figure, 0, &format!("{mode}, here")));
    for all in [&none, &hybrid, &waits] {
        assert!(all.len() == 5 && all.is_sorted(), "{all:?}");
    }
    for (at, waits) in waits.iter().enumerate() {
        assert!(*waits >= 23.0 && *waits > 10.0 * hybrid[at].max(none[at]), "{figure:?}");
    }
}

#[test]
fn with_a_disk_and_replicas_commit_wait_is_one_order_slower_and_most_of_it_is_waiting() {
    let figure = small("hybridtime_figure4");
    let means = column(&figure, "mean ms");
    let [none, hybrid, waits] = means[..] else { panic!("three modes: {means:?}") };
    assert!((0.8..1.25).contains(&(hybrid / none)), "hybrid waits for nothing: {means:?}");
    // No write returns before the disk of one member at least has synced.
    assert!(hybrid > 1.0 && (4.0..20.0).contains(&(waits / hybrid)), "{means:?}");
    let waiting = column(&figure, "waiting");
    assert!((60.0..99.0).contains(&waiting[2]), "agreement and waiting overlap: {waiting:?}");
    assert!(waiting[..2] == [0.0, 0.0], "{waiting:?}");
}

#[test]
fn over_an_ocean_the_way_back_is_longer_than_the_commit_wait() {
    let figure = small("hybridtime_figure5");
    let [hybrid_p25, waits_p25] = [1, 2].map(|at| column(&figure, "p25")[at]);
    let [hybrid_p75, waits_p75] = [1, 2].map(|at| column(&figure, "p75")[at]);
    // A quarter of the writes, at least, are to a leader in the same data centre.
    assert!(hybrid_p25 < 10.0 && waits_p25 >= 24.6, "{hybrid_p25} {waits_p25}");
    assert!(hybrid_p75 > 111.0 && waits_p75 < 1.1 * hybrid_p75, "{hybrid_p75} {waits_p75}");
}

/// Returns the numbers of a table's columns of one name.
fn columns(figure: &Figure, name: &str) -> Vec<Vec<f64>> {
    let heads = figure.table.head.iter().enumerate().filter(|(_, head)| *head == name);
    let number = |cell: &String| cell.split(' ').next().and_then(|text| text.parse().ok());
    heads
        .map(|(at, _)| {
            figure.table.rows.iter().map(|row| number(&row[at]).expect("a number")).collect()
        })
        .collect()
}

#[test]
fn an_authority_costs_a_read_one_round_trip() {
    let saved = column(&small("clock_si_figure3"), "saved ms");
    assert!(saved.iter().all(|ms| (0.14..0.22).contains(ms)), "a trip of 0.14 ms: {saved:?}");
    let part = column(&small("clock_si_figure3"), "saved");
    assert!((40.0..55.0).contains(&part[0]) && part.is_sorted_by(|a, b| a > b), "{part:?}");
    let figure = small("clock_si_figure4");
    let saved = column(&figure, "saved ms");
    let [europe, us_east, us_west] = [0..3, 3..6, 6..9].map(|rows| saved[rows].to_vec());
    // A ceiling that has expired may cost a write to the disk more, or less.
    let about = |all: &[f64], trip: f64| all.iter().all(|ms| (ms - trip).abs() < 10.0);
    assert!(about(&europe, 160.0) && about(&us_east, 170.0), "{saved:?}");
    assert!(about(&us_west, 0.0) && us_west[0] < 1.0, "{saved:?}");
}

#[test]
fn an_authority_limits_the_throughput_and_clocks_do_not() {
    let figure = small("clock_si_figure5");
    // One partition, and four: reads, then updates.
    let [[reads, reads_4], [updates, updates_4]] = [0, 1].map(|panel| {
        let all = points(&figure, panel, "clock_si, here");
        [all[0], all[1]]
    });
    assert!(reads_4 > 3.6 * reads && updates_4 > 3.6 * updates, "{figure:?}");
    let [limited, _] = [0, 1].map(|panel| points(&figure, panel, "conventional_si, here")[1]);
    assert!((50.0..=64.0).contains(&limited), "64 k timestamps in a second: {limited}");
    let feed = small("clock_si_figure6");
    let ratios = column(&feed, "ratio");
    assert!(ratios.iter().all(|ratio| (1.0..2.0).contains(ratio)), "{ratios:?}");
}

#[test]
fn snapshots_that_are_older_than_a_commit_takes_are_not_delayed() {
    let figure = small("clock_si_figure7");
    let delayed = column(&figure, "delayed");
    // For each age, reads of no hot spots, and of nothing else.
    let hot: Vec<f64> = delayed.iter().skip(1).step_by(2).copied().collect();
    // The first read waits for a ceiling.
    let none = |parts: &[f64]| parts.iter().all(|part| *part < 0.3);
    assert!(none(&delayed.iter().step_by(2).copied().collect::<Vec<_>>()), "{delayed:?}");
    assert!(hot[0] > 20.0 && hot[1] > 1.0 && hot[1] < hot[0], "{hot:?}");
    assert!(none(&hot[2..]), "14 and 21 ms: {hot:?}");
    let latency = points(&small("clock_si_figure8"), 0, "0 ms, here");
    assert!(latency[1] > 5.0 * latency[0], "{latency:?}");
}

#[test]
fn measurements_behave_as_the_analytical_model() {
    let figure = small("clock_si_figure9");
    let measured = points(&figure, 0, "measured, here");
    for (measured, modelled) in measured.iter().zip(points(&figure, 0, "the model")) {
        assert!((0.6..1.5).contains(&(measured / modelled)), "{measured} {modelled}");
    }
    assert!(measured.is_sorted_by(|a, b| a > b), "more items, fewer delays: {measured:?}");
    for (name, falls) in
        [("clock_si_figure10", true), ("clock_si_figure11", true), ("clock_si_figure12", false)]
    {
        let figure = small(name);
        let measured = points(&figure, 0, "measured, here");
        // Delays that are rarer than these are too few to have a mean.
        let (first, older) = (measured[0], measured[1]);
        assert!(if falls { first > 1.5 * older } else { older > first }, "{name}: {measured:?}");
        // Aborts are fewer than the model's upper bound.
        let bound = points(&figure, 0, "the model");
        assert!(falls || measured.iter().zip(bound).all(|(ours, most)| *ours <= most), "{name}");
    }
    let drawn = columns(&small("clock_si_figure13"), "model");
    assert!(drawn[0].is_sorted() && drawn[0][2] > 20.0, "{drawn:?}");
}

#[test]
fn an_unknown_figure_lists_the_known_ones() {
    let why =
        draw("spanner_table9", Effort::Small, &mut |_| {}).expect_err("there is none").to_string();
    assert!(why.contains("spanner_table9") && all().all(|(name, _)| why.contains(name)), "{why}");
}

/// One by one, timestamps are a part of the latency; in batches, a small one (K2 §4.3).
#[test]
fn batches_of_timestamps_take_little_time() {
    let figure = small("k2_figure4");
    let part = |name: &str| points(&figure, 0, name);
    assert!(part("one by one, here").iter().all(|part| *part > 8.0), "{}", figure.text());
    assert!(part("in batches, here").iter().all(|part| *part < 6.0), "{}", figure.text());
    let figure = small("k2_figure16");
    let thousands = column(&figure, "thousands/s");
    let [one, batches] = [&thousands[..2], &thousands[2..]].map(|some| some[1]);
    assert!(one < 61.0, "an oracle answers 60,000 requests in a second: {}", figure.text());
    assert!(batches > 10.0 * one, "{}", figure.text());
    assert_eq!(small("k2_figure16").text(), figure.text(), "the same figure is the same");
}

#[test]
fn oracles_near_their_time_master_stay_below_the_assumed_bound() {
    let uncertainty = column(&small("k2_figure15"), "ε µs");
    assert!(uncertainty.iter().all(|us| (70.0..100.0).contains(us)), "{uncertainty:?}");
}

/// Timestamps order writers that locks refuse under skew.
#[test]
fn k2_fails_less_than_locks_and_certification_under_skew() {
    let figure = small("k2_ycsb_t");
    let failed = |name: &str| *points(&figure, 1, &format!("{name}, here")).last().expect("one");
    for other in ["spanner", "hybrid_time", "clock_si"] {
        assert!(failed("k2") < failed(other) / 4.0, "{}", figure.text());
    }
}
