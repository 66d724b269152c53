//! Amounts by value, in canonical form, at their limits and beyond.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn amounts_compare_by_value_not_by_spelling() {
    for equal in [
        ["1000m", "1"],
        ["1Ki", "1024"],
        ["1.5Gi", "1536Mi"],
        ["2e3", "2k"],
        ["0", "-0"],
        ["1E", "1000000000000000000"],
        ["1E2", "100"],
        ["1e-3", "1m"],
        [".5", "500m"],
        ["5.", "5"],
        ["+3", "003"],
        ["0.1n", "1n"],
        ["0.0001Ki", "102400000n"],
    ] {
        assert_eq!(read(equal[0]), read(equal[1]), "{equal:?}");
    }
    for [smaller, larger] in [
        ["1G", "1Gi"],
        ["-1", "0"],
        ["-2", "-1"],
        ["999m", "1"],
        ["1", "1.000000001"],
        ["30Gi", "1Ti"],
        ["1e20", "1e21"],
    ] {
        assert!(read(smaller) < read(larger), "{smaller} {larger}");
    }
}

#[test]
fn what_is_no_quantity_says_so_in_kubernetes_words() {
    for (text, error) in [
        ("", QuantityError::Format),
        ("+", QuantityError::Format),
        (" 1", QuantityError::Format),
        ("1 ", QuantityError::Format),
        ("v1.33.4", QuantityError::Format),
        ("1.2.3", QuantityError::Format),
        ("１", QuantityError::Format),
        ("1Gix", QuantityError::Format),
        (".", QuantityError::Number),
        ("m", QuantityError::Number),
        ("1i", QuantityError::Suffix),
        ("1K", QuantityError::Suffix),
        ("1e", QuantityError::Suffix),
        ("1e-", QuantityError::Suffix),
        ("1m3", QuantityError::Suffix),
        ("1e99999999999", QuantityError::Suffix),
    ] {
        assert_eq!(text.parse::<Quantity>(), Err(error), "{text}");
    }
    assert_eq!(
        QuantityError::Format.to_string(),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
}

#[test]
fn amounts_are_printed_in_canonical_form() {
    for (text, printed) in [
        ("0", "0"),
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1000", "1k"),
        ("1024Ki", "1Mi"),
        ("1000Ki", "1000Ki"),
        ("1.13Gi", "1213328261120m"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("1.5e3", "1500"),
        ("100m", "100m"),
        ("-1500m", "-1500m"),
        ("1e24", "1e24"),
        ("1000000E", "1000000E"),
        ("0.1m", "100u"),
        ("16Ei", "9223372036854775807"),
    ] {
        assert_eq!(read(text).to_string(), printed, "{text}");
    }
}

#[test]
fn sums_keep_the_notation_of_their_left_side() {
    let allocatable = read("4Gi");
    assert_eq!(allocatable.minus(read("512Mi")).to_string(), "3584Mi");
    assert_eq!(read("2").minus(read("500m")).plus(read("250m")).to_string(), "1750m");
    assert!(read("1").minus(read("2")) < Quantity::ZERO);
    assert_eq!(Quantity::whole(3).plus(read("1Ki")).to_string(), "1027");
}

#[test]
fn a_sum_that_starts_from_nothing_is_written_like_its_parts() {
    let nodes = ["4Gi", "512Mi"];
    let total = nodes.into_iter().fold(Quantity::ZERO, |sum, node| sum.plus(read(node)));
    assert_eq!(total.to_string(), "4608Mi");
    assert_eq!(Quantity::ZERO.minus(read("2e3")).to_string(), "-2e3");
    assert_eq!(read("1Gi").plus(Quantity::ZERO).to_string(), "1Gi");
}

#[test]
fn beyond_all_bounds_is_the_bound() {
    let huge = read("1e2147483647");
    assert_eq!(huge, read("9e999"));
    assert!(huge > read("1e28"));
    assert_eq!(
        read("-1e999").plus(read("-1e999")),
        read("-1e999").minus(Quantity::whole(0)).plus(read("-1e999"))
    );
    assert_eq!(read("1e-2147483648"), read("1n"));
    assert_eq!(read("0e2147483647"), Quantity::ZERO);
}

#[test]
fn a_hundred_thousand_digits_are_read_at_once() {
    let digits = "9".repeat(100_000);
    assert_eq!(read(&digits), read("1e999"));
    assert_eq!(read(&format!("{digits}Ei")), read("16Ei"));
    assert_eq!(read(&format!("0.{digits}")), read("1"));
    assert_eq!(read(&format!("0.{digits}Ki")), read("1Ki"));
    assert_eq!(read(&format!("{}1", "0".repeat(100_000))), read("1"));
}

#[test]
fn approximate_values_are_close() {
    for (text, value) in [("3Gi", 3_221_225_472.0), ("100m", 0.1), ("-1.5", -1.5), ("7", 7.0)] {
        assert_eq!(read(text).as_f64(), value);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_printed_reads_back(
        number in any::<i64>(),
        suffix in prop::sample::select(vec!["n", "u", "m", "", "k", "M", "Ki", "Mi", "Gi", "e2", "e-4"]),
    ) {
        let quantity = read(&format!("{number}{suffix}"));
        prop_assert_eq!(read(&quantity.to_string()), quantity);
    }

    #[test]
    fn order_follows_the_number(a in any::<i32>(), b in any::<i32>()) {
        for suffix in ["", "m", "Ki", "e3"] {
            let (left, right) = (read(&format!("{a}{suffix}")), read(&format!("{b}{suffix}")));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,20}|[-+0-9.]{0,6}[eEinumkKMGTP]{0,2}[-+0-9]{0,4}") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            prop_assert_eq!(read(&quantity.to_string()), quantity);
        }
    }
}
