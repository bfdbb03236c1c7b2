//! Ports for tests.

/// Returns free ports below the range of outgoing connections, so that no connection takes one by
/// chance before its use.
pub fn free_ports(count: usize) -> Vec<u16> {
    const EACH: u16 = 120;
    static NEXT: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
    let first = 12_000 + EACH * u16::try_from(std::process::id() % 150).expect("it is small");
    let candidates =
        std::iter::repeat_with(|| NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % EACH);
    let free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    candidates.map(|at| first + at).filter(free).take(count).collect()
}
