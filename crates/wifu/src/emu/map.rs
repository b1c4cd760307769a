//! A map of the hosts as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use wifu_linux::emu::control::{LinkRow, NodeRow};

const COLUMNS: usize = 72;
const ROWS: usize = 14;
/// Rows of the picture on the smallest terminal, and lines of a map that are neither picture nor
/// node.
const LEAST: usize = 5;
const FRAME: usize = 7;

/// Packets sent and received by each node at the last look.
#[derive(Default)]
pub struct Map {
    before: BTreeMap<String, (u64, u64)>,
}

impl Map {
    /// One picture, `since` the last one, in so many `lines`, if there is a limit.
    pub fn draw(
        &mut self,
        nodes: &[NodeRow],
        links: &[LinkRow],
        since: Duration,
        lines: Option<usize>,
    ) -> String {
        let free = lines.map_or(usize::MAX, |n| n.saturating_sub(FRAME));
        let rows = free.saturating_sub(nodes.len()).clamp(LEAST, ROWS);
        let mut text = canvas(nodes, rows);
        let taken = if text.is_empty() { 0 } else { rows };
        let told = nodes.len().min(free.saturating_sub(taken).max(1));
        let _ = writeln!(
            text,
            "{:<8} {:>7} {:>7} {:>6} {:>9} {:>5}  hears (SNR, dB)",
            "node", "sent/s", "rcvd/s", "queue", "delay ms", "busy"
        );
        for (i, n) in nodes.iter().enumerate() {
            // The first picture knows no past.
            let now = (n.sent, n.received);
            let (sent, received) = self.before.get(&n.name).copied().unwrap_or(now);
            let rate = |now: u64, then: u64| {
                now.saturating_sub(then) as f64 / since.as_secs_f64().max(1e-3)
            };
            let delay = n
                .delay_us
                .map_or("-".into(), |d| format!("{:.2}", d as f64 / 1e3));
            self.before.insert(n.name.clone(), now);
            if i >= told {
                continue;
            }
            let _ = write!(
                text,
                "{:<8} {:>7.0} {:>7.0} {:>6} {delay:>9} {:>4.0}%  ",
                n.name,
                rate(n.sent, sent),
                rate(n.received, received),
                n.queued,
                n.busy * 100.0
            );
            let _ = writeln!(text, "{}", heard(n, links));
        }
        if told < nodes.len() {
            let _ = writeln!(
                text,
                "... and {} more: `dump` lists all",
                nodes.len() - told
            );
        }
        text
    }
}

/// The strongest whom a node hears.
fn heard(node: &NodeRow, links: &[LinkRow]) -> String {
    if node.paused {
        return "paused".into();
    }
    let mut all: Vec<(f64, &str)> = links
        .iter()
        .filter(|l| l.to == node.name)
        .filter_map(|l| Some((l.snr_db?, l.from.as_str())))
        .filter(|(db, _)| *db > 0.0)
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words: Vec<String> = all
        .iter()
        .take(5)
        .map(|(db, name)| format!("{name} {db:.0}"))
        .collect();
    words.join("  ")
}

/// Names where the nodes are, in `most` rows; nothing if nobody knows.
fn canvas(nodes: &[NodeRow], most: usize) -> String {
    let places: Option<Vec<_>> = nodes.iter().map(|n| n.position).collect();
    let Some(places) = places.filter(|p| !p.is_empty()) else {
        return String::new();
    };
    let range = |axis: usize| {
        let values = places.iter().map(|p| p[axis]);
        let low = values.clone().fold(f64::INFINITY, f64::min);
        (low, values.fold(f64::NEG_INFINITY, f64::max))
    };
    let ((left, right), (bottom, top)) = (range(0), range(1));
    let rows = if top > bottom { most } else { 1 };
    let mut grid = vec![vec![' '; COLUMNS + 12]; rows];
    for (node, place) in nodes.iter().zip(&places) {
        let part = |value: f64, low: f64, high: f64, cells: usize| match high > low {
            true => ((value - low) / (high - low) * (cells - 1) as f64).round() as usize,
            false => 0,
        };
        let (x, y) = (
            part(place[0], left, right, COLUMNS),
            part(place[1], bottom, top, rows),
        );
        let mark = match (node.paused, node.queued > 0) {
            (true, _) => 'x',
            (false, true) => '*',
            (false, false) => 'o',
        };
        let label = core::iter::once(mark).chain(node.name.chars());
        for (cell, c) in grid[rows - 1 - y][x..].iter_mut().zip(label) {
            *cell = c;
        }
    }
    let mut text = format!(
        "{:.0} x {:.0} m; o idle, * has packets, x paused\n",
        right - left,
        top - bottom
    );
    for row in grid {
        let _ = writeln!(text, "{}", row.into_iter().collect::<String>().trim_end());
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, position: Option<[f64; 3]>) -> NodeRow {
        NodeRow {
            name: name.into(),
            namespace: String::new(),
            address: String::new(),
            position,
            paused: false,
            queued: 0,
            delay_us: None,
            busy: 0.0,
            sent: 20,
            failed: 0,
            retries: 0,
            received: 10,
            overheard: 0,
            queue_drops: 0,
        }
    }

    #[test]
    fn nodes_are_where_they_are() {
        let at = |x, y| Some([x, y, 0.0]);
        let nodes = [node("n1", at(0.0, 0.0)), node("n2", at(50.0, 30.0))];
        let mut map = Map::default();
        let text = map.draw(&nodes, &[], Duration::from_secs(2), None);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("50 x 30 m"), "{text}");
        assert_eq!(lines[1].find("on2"), Some(COLUMNS - 1), "{text}");
        assert!(lines[ROWS].starts_with("on1"), "{text}");
        assert!(text.contains("n1             0       0"), "{text}");
        let mut later = nodes.clone();
        (later[0].sent, later[0].received) = (40, 20);
        let again = map.draw(&later, &[], Duration::from_secs(2), None);
        assert!(again.contains("n1            10       5"), "{again}");
        let unplaced = map.draw(&[node("n1", None)], &[], Duration::from_secs(1), None);
        assert!(unplaced.starts_with("node"), "{unplaced}");
        // On a terminal of 24 lines, with a line above and one below the map.
        let many: Vec<NodeRow> = (0..30)
            .map(|i| node(&format!("n{i}"), at(f64::from(i), f64::from(i % 6))))
            .collect();
        let cut = map.draw(&many, &[], Duration::from_secs(1), Some(24));
        assert!(cut.lines().count() <= 22, "{cut}");
        assert!(cut.contains("... and 18 more"), "{cut}");
    }
}
