//! What checks have measured, as lines of a report and as small pictures.

use std::fmt::{self, Write};

use flagship_api::rollout_record::{RecordEntry, What};
use jiff::Timestamp;
use serde::Serialize;

use super::Record;
use super::html::Text;

/// A check of a stage or a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckStory {
    /// The policy and the check, such as `production/errors`.
    pub check: String,
    /// The stage.
    pub stage: String,
    /// The cluster, for a check after each of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// `passed`, `failed` or `open`.
    pub result: &'static str,
    /// How it ended, in words.
    pub says: String,
    /// What was measured, in order.
    pub points: Vec<Point>,
    /// What values must be below of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<f64>,
    /// What values must be above of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<f64>,
}

/// What one round has measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// When.
    pub at: Timestamp,
    /// Of the updated clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Of the clusters that were not updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<f64>,
}

/// The checks of a record, in the order in which they were first asked.
pub fn checks(record: &Record) -> Vec<CheckStory> {
    let mut all: Vec<CheckStory> = Vec::new();
    let asked = [What::CheckMeasured, What::CheckPassed, What::CheckFailed];
    for entry in record.entries().filter(|entry| asked.contains(&entry.what)) {
        let known = all.iter().position(|known| is_of(known, entry));
        let at = known.unwrap_or_else(|| {
            all.push(CheckStory {
                check: entry.gate.clone().unwrap_or_default(),
                stage: entry.stage.clone().unwrap_or_default(),
                cluster: entry.cluster.clone(),
                result: "open",
                says: String::new(),
                points: Vec::new(),
                below: None,
                above: None,
            });
            all.len() - 1
        });
        let Some(story) = all.get_mut(at) else { continue };
        let number = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
        if let Some(measured) = &entry.measured {
            let (value, rest) = (number(&measured.value), number(&measured.rest));
            story.points.push(Point { at: entry.time.0, value, rest });
            story.below = number(&measured.below).or(story.below);
            story.above = number(&measured.above).or(story.above);
        }
        match entry.what {
            What::CheckPassed => story.result = "passed",
            What::CheckFailed => story.result = "failed",
            _ => {}
        }
        story.says = entry.text.clone().unwrap_or_default();
    }
    all
}

fn is_of(known: &CheckStory, entry: &RecordEntry) -> bool {
    (Some(&known.check), Some(&known.stage), &known.cluster)
        == (entry.gate.as_ref(), entry.stage.as_ref(), &entry.cluster)
}

impl CheckStory {
    /// `production/errors of stage canary`.
    pub fn title(&self) -> String {
        match &self.cluster {
            None => format!("{} of stage {}", self.check, self.stage),
            Some(cluster) => format!("{} of {cluster}", self.check),
        }
    }
}

/// Pictures of more checks than these would be longer than the rest of the page.
const DRAWN: usize = 60;
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 90.0;
const MARGIN: f64 = 10.0;

/// Draws one small picture a check: what was measured over time, the rest, and the limits.
pub(super) fn draw(out: &mut String, checks: &[CheckStory]) -> fmt::Result {
    if checks.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2>Checks</h2>\n<div class=\"checks\">")?;
    for check in checks.iter().take(DRAWN) {
        let class = match check.result {
            "passed" => "done",
            "failed" => "failed",
            _ => "open",
        };
        writeln!(
            out,
            "<div><p>{}: <strong class=\"{class}\">{}</strong></p>",
            Text(&check.title()),
            check.result
        )?;
        picture(out, check)?;
        writeln!(out, "<p class=\"faint\">{}</p></div>", Text(&check.says))?;
    }
    writeln!(out, "</div>")?;
    if checks.len() > DRAWN {
        writeln!(out, "<p class=\"faint\">and {} more</p>", checks.len() - DRAWN)?;
    }
    Ok(())
}

fn picture(out: &mut String, check: &CheckStory) -> fmt::Result {
    let values = check.points.iter().flat_map(|point| [point.value, point.rest]);
    let all = values.chain([check.below, check.above, Some(0.0)]).flatten();
    let all: Vec<f64> = all.filter(|value| value.is_finite()).collect();
    let (Some(first), Some(last)) = (check.points.first(), check.points.last()) else {
        return Ok(());
    };
    let low = all.iter().copied().fold(0.0, f64::min);
    let high = all.iter().copied().fold(0.0, f64::max);
    let high = if high > low { high } else { low + 1.0 };
    let whole = last.at.duration_since(first.at).as_secs_f64();
    let x = |at: Timestamp| {
        let part =
            if whole > 0.0 { at.duration_since(first.at).as_secs_f64() / whole } else { 0.5 };
        MARGIN + part * (WIDTH - 2.0 * MARGIN)
    };
    let y = |value: f64| HEIGHT - MARGIN - (value - low) / (high - low) * (HEIGHT - 2.0 * MARGIN);
    writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        Text(&format!("What {} has measured", check.title()))
    )?;
    for limit in [check.below, check.above].into_iter().flatten() {
        let at = y(limit);
        let end = WIDTH - MARGIN;
        writeln!(
            out,
            "<line class=\"limit\" x1=\"{MARGIN}\" y1=\"{at:.1}\" x2=\"{end}\" y2=\"{at:.1}\"><title>limit {limit}</title></line>"
        )?;
    }
    for (class, of) in [("rest", (|p| p.rest) as fn(&Point) -> Option<f64>), ("value", |p| p.value)]
    {
        let line: Vec<String> = check
            .points
            .iter()
            .filter_map(|point| Some(format!("{:.1},{:.1}", x(point.at), y(of(point)?))))
            .collect();
        if line.len() > 1 {
            writeln!(out, "<polyline class=\"{class}\" points=\"{}\"/>", line.join(" "))?;
        }
    }
    for point in &check.points {
        let Some(value) = point.value else { continue };
        writeln!(
            out,
            "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"><title>{value} at {:.0}</title></circle>",
            x(point.at),
            y(value),
            point.at
        )?;
    }
    writeln!(out, "</svg>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(values: &[Option<f64>]) -> CheckStory {
        let points = (0_i64..).zip(values).map(|(n, value)| Point {
            at: Timestamp::from_second(1_800_000_000 + 30 * n).unwrap(),
            value: *value,
            rest: value.map(|value| value / 2.0),
        });
        CheckStory {
            check: "p/<b>".to_owned(),
            stage: "canary".to_owned(),
            cluster: None,
            result: "failed",
            says: "0.02 is not below 0.01".to_owned(),
            points: points.collect(),
            below: Some(0.01),
            above: None,
        }
    }

    #[test]
    fn a_picture_has_values_the_rest_and_the_limit() {
        let mut page = String::new();
        draw(&mut page, &[story(&[Some(0.0), None, Some(0.02)])]).unwrap();
        assert!(
            page.contains("<polyline class=\"value\" points=\"10.0,80.0 310.0,10.0\"/>"),
            "{page}"
        );
        assert!(
            page.contains("<polyline class=\"rest\" points=\"10.0,80.0 310.0,45.0\"/>"),
            "{page}"
        );
        assert!(
            page.contains("y1=\"45.0\"") && page.contains("<title>limit 0.01</title>"),
            "{page}"
        );
        assert_eq!(page.matches("<circle").count(), 2, "silence is no dot");
        assert!(page.contains("p/&lt;b&gt; of stage canary") && !page.contains("<b>"), "{page}");
    }

    #[test]
    fn what_has_one_point_or_none_is_drawn_too() {
        let mut page = String::new();
        draw(&mut page, &[story(&[]), story(&[None]), story(&[Some(0.0)])]).unwrap();
        assert_eq!(page.matches("<circle").count(), 1);
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
        let mut none = String::new();
        draw(&mut none, &[]).unwrap();
        assert_eq!(none, "");
    }
}
