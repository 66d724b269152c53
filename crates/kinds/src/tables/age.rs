//! How long something took or has been, in the two figures that people read.

use jiff::SignedDuration;

/// A span as Kubernetes shortens it: `59s`, `5m2s`, `3h`, `2d4h`, `400d`, `2y35d`.
pub fn human(span: SignedDuration) -> String {
    let seconds = span.as_secs();
    let two = |first: i64, unit: &str, second: i64, smaller: &str| match second {
        0 => format!("{first}{unit}"),
        _ => format!("{first}{unit}{second}{smaller}"),
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, "d", hours % 24, "h"),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_shrink_to_two_figures() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let table = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (5 * minute + 2, "5m2s"),
            (10 * minute + 2, "10m"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (7 * hour + 59 * minute, "7h59m"),
            (47 * hour, "47h"),
            (2 * day, "2d"),
            (2 * day + 4 * hour, "2d4h"),
            (8 * day + hour, "8d"),
            (729 * day, "729d"),
            (2 * 365 * day, "2y"),
            (2 * 365 * day + 35 * day, "2y35d"),
            (9 * 365 * day + 35 * day, "9y"),
        ];
        for (seconds, want) in table {
            assert_eq!(human(SignedDuration::from_secs(seconds)), want, "{seconds}");
        }
    }
}
