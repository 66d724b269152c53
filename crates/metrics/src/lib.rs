//! Counters, gauges and histograms, printed in Prometheus' text format.
//!
//! A page of our own because the usual crates print in hash order: two runs of a
//! seed must print the same bytes. Asking twice for the same name and labels
//! gives the same instrument, so nobody has to hand instruments around.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Label names with their values, in the order they are printed.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Bounds for spans in seconds, from a millisecond to ten minutes.
pub const SECONDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];

/// All instruments of one process. Clones share them.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<BTreeMap<String, Family>>>);

struct Family {
    help: String,
    series: BTreeMap<String, Instrument>,
}

enum Instrument {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
}

/// A number that only grows.
#[derive(Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

/// A number that moves both ways. Held as the bits of an `f64`.
#[derive(Clone, Default)]
pub struct Gauge(Arc<AtomicU64>);

/// How often values fell below each bound.
#[derive(Clone)]
pub struct Histogram(Arc<HistogramCells>);

struct HistogramCells {
    bounds: &'static [f64],
    /// One for each bound, and the last for everything above.
    counts: Vec<AtomicU64>,
    sum: Gauge,
}

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Gauge {
    /// Sets the value.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Adds `difference`, which may be negative.
    pub fn add(&self, difference: f64) {
        let added = |bits| Some((f64::from_bits(bits) + difference).to_bits());
        // The closure never declines, so the update cannot fail.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added).ok();
    }

    /// The present value.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(HistogramCells { bounds, counts, sum: Gauge::default() }))
    }

    /// Counts one value.
    pub fn observe(&self, value: f64) {
        let cell = self.0.bounds.partition_point(|bound| *bound < value);
        self.0.counts[cell].fetch_add(1, Ordering::Relaxed);
        self.0.sum.add(value);
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.0.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl Metrics {
    /// The counter of that name and labels.
    pub fn counter(&self, name: &str, help: &str, labels: Labels<'_>) -> Counter {
        let fresh = || Instrument::Counter(Counter::default());
        self.instrument(name, help, labels, fresh, |found| match found {
            Instrument::Counter(counter) => Some(counter.clone()),
            _ => None,
        })
        .unwrap_or_default()
    }

    /// The gauge of that name and labels.
    pub fn gauge(&self, name: &str, help: &str, labels: Labels<'_>) -> Gauge {
        let fresh = || Instrument::Gauge(Gauge::default());
        self.instrument(name, help, labels, fresh, |found| match found {
            Instrument::Gauge(gauge) => Some(gauge.clone()),
            _ => None,
        })
        .unwrap_or_default()
    }

    /// The histogram of that name and labels; `bounds` ascend and count once asked first.
    pub fn histogram(
        &self,
        name: &str,
        help: &str,
        bounds: &'static [f64],
        labels: Labels<'_>,
    ) -> Histogram {
        let fresh = || Instrument::Histogram(Histogram::new(bounds));
        self.instrument(name, help, labels, fresh, |found| match found {
            Instrument::Histogram(histogram) => Some(histogram.clone()),
            _ => None,
        })
        .unwrap_or_else(|| Histogram::new(bounds))
    }

    /// Stops printing a series, for labels that name an object which is gone.
    pub fn forget(&self, name: &str, labels: Labels<'_>) {
        let mut families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(family) = families.get_mut(name) {
            family.series.remove(&written(labels));
        }
    }

    /// `None` if the name is taken by another sort of instrument: the caller then
    /// counts into the void, which is better than failing for a metric.
    fn instrument<T>(
        &self,
        name: &str,
        help: &str,
        labels: Labels<'_>,
        fresh: impl FnOnce() -> Instrument,
        pick: impl FnOnce(&Instrument) -> Option<T>,
    ) -> Option<T> {
        let mut families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let family = families
            .entry(name.to_owned())
            .or_insert_with(|| Family { help: help.to_owned(), series: BTreeMap::new() });
        let mut sample = family.series.values().map(Instrument::sort);
        let fresh = fresh();
        if sample.next().is_some_and(|sort| sort != fresh.sort()) {
            return None;
        }
        pick(family.series.entry(written(labels)).or_insert(fresh))
    }

    /// Everything, in Prometheus' text format, sorted by name and labels.
    pub fn render(&self) -> String {
        let families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        for (name, family) in families.iter() {
            let Some(sort) = family.series.values().map(Instrument::sort).next() else { continue };
            let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
            line(&mut out, format_args!("# HELP {name} {help}"));
            line(&mut out, format_args!("# TYPE {name} {sort}"));
            for (labels, instrument) in &family.series {
                instrument.render(name, labels, &mut out);
            }
        }
        out
    }
}

impl Instrument {
    fn sort(&self) -> &'static str {
        match self {
            Self::Counter(_) => "counter",
            Self::Gauge(_) => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }

    fn render(&self, name: &str, labels: &str, out: &mut String) {
        match self {
            Self::Counter(counter) => {
                line(out, format_args!("{name}{} {}", braced(labels, ""), counter.get()));
            }
            Self::Gauge(gauge) => {
                line(out, format_args!("{name}{} {}", braced(labels, ""), gauge.get()));
            }
            Self::Histogram(histogram) => {
                let cells = &histogram.0;
                let mut below = 0;
                for (index, count) in cells.counts.iter().enumerate() {
                    below += count.load(Ordering::Relaxed);
                    let bound = cells.bounds.get(index).map_or("+Inf".to_owned(), f64::to_string);
                    let labels = braced(labels, &format!("le=\"{bound}\""));
                    line(out, format_args!("{name}_bucket{labels} {below}"));
                }
                line(out, format_args!("{name}_sum{} {}", braced(labels, ""), cells.sum.get()));
                line(out, format_args!("{name}_count{} {below}", braced(labels, "")));
            }
        }
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a String does not fail");
}

fn written(labels: Labels<'_>) -> String {
    let pairs = labels.iter().map(|(name, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    });
    pairs.collect::<Vec<_>>().join(",")
}

fn braced(labels: &str, more: &str) -> String {
    match (labels, more) {
        ("", "") => String::new(),
        (one, "") | ("", one) => format!("{{{one}}}"),
        (one, two) => format!("{{{one},{two}}}"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn instruments_are_printed_sorted_and_escaped() {
        let metrics = Metrics::default();
        metrics.gauge("depth", "Keys waiting.", &[("name", "b")]).set(2.5);
        metrics.gauge("depth", "Keys waiting.", &[("name", "a\"\n")]).add(-1.0);
        metrics.counter("adds_total", "Keys added.", &[]).add(3);
        let seconds = metrics.histogram("took_seconds", "Spans.", &[0.1, 1.0], &[("name", "b")]);
        for value in [0.1, 0.5, 7.0] {
            seconds.observe(value);
        }
        expect![[r#"
            # HELP adds_total Keys added.
            # TYPE adds_total counter
            adds_total 3
            # HELP depth Keys waiting.
            # TYPE depth gauge
            depth{name="a\"\n"} -1
            depth{name="b"} 2.5
            # HELP took_seconds Spans.
            # TYPE took_seconds histogram
            took_seconds_bucket{name="b",le="0.1"} 1
            took_seconds_bucket{name="b",le="1"} 2
            took_seconds_bucket{name="b",le="+Inf"} 3
            took_seconds_sum{name="b"} 7.6
            took_seconds_count{name="b"} 3
        "#]]
        .assert_eq(&metrics.render());
    }

    #[test]
    fn the_same_name_and_labels_are_the_same_instrument() {
        let metrics = Metrics::default();
        metrics.counter("n", "", &[("a", "1")]).inc();
        metrics.counter("n", "", &[("a", "1")]).inc();
        assert_eq!(metrics.counter("n", "", &[("a", "1")]).get(), 2);
        assert_eq!(metrics.counter("n", "", &[("a", "2")]).get(), 0);
    }

    #[test]
    fn a_name_keeps_its_first_sort() {
        let metrics = Metrics::default();
        metrics.counter("n", "", &[]).inc();
        metrics.gauge("n", "", &[]).set(9.0);
        assert!(metrics.render().contains("n 1"));
    }

    #[test]
    fn a_forgotten_series_is_printed_no_more() {
        let metrics = Metrics::default();
        metrics.gauge("n", "", &[("name", "gone")]).set(1.0);
        metrics.forget("n", &[("name", "gone")]);
        assert_eq!(metrics.render(), "");
    }
}
