//! Amounts of no more than 64 bits, as the API server reads, adds and prints them.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Quantity {
    Quantity::bounded(text).unwrap()
}

#[test]
fn the_canonical_form_loses_nothing_and_has_no_fraction() {
    let table = [
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5", "500m"),
        ("1500", "1500"),
        ("2000", "2k"),
        ("0Mi", "0"),
        ("-0", "0"),
        ("1023Ki", "1023Ki"),
        ("1Ki", "1Ki"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("1e3", "1e3"),
        ("1E2", "100"),
        ("12e6", "12e6"),
        ("1e-3", "1e-3"),
        ("+5", "5"),
        ("-1.5", "-1500m"),
        (".5", "500m"),
        ("5.", "5"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1E", "1E"),
        ("9999E", "9223372036854775807"),
        ("100000000000000000000000000000000000000000", "9223372036854775807"),
        ("1e400", "9223372036854775807e0"),
        ("1e-400", "1e-9"),
        ("0e99999999", "0"),
        ("8Ei", "9223372036854775807"),
        ("007", "7"),
    ];
    for (text, canonical) in table {
        let canonical = canonical.strip_suffix("e0").unwrap_or(canonical);
        assert_eq!(parse(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn what_is_no_quantity_is_refused_in_kubernetes_words() {
    let table = [
        ("", QuantityError::Format),
        ("abc", QuantityError::Format),
        ("1 Gi", QuantityError::Format),
        ("1.2.3", QuantityError::Format),
        ("1Gb", QuantityError::Format),
        ("-", QuantityError::Number),
        (".", QuantityError::Number),
        ("Mi", QuantityError::Number),
        ("1mi", QuantityError::Suffix),
        ("1K", QuantityError::Suffix),
        ("1e", QuantityError::Suffix),
        ("1m5", QuantityError::Suffix),
        ("1é", QuantityError::Format),
    ];
    for (text, error) in table {
        assert_eq!(Quantity::bounded(text), Err(error), "{text}");
    }
}

#[test]
fn sums_keep_the_notation_of_the_left_side() {
    assert_eq!((parse("512Mi") + parse("512Mi")).to_string(), "1Gi");
    assert_eq!((parse("0") + parse("1Gi")).to_string(), "1Gi");
    assert_eq!((parse("1") - parse("1500m")).to_string(), "-500m");
    assert_eq!((parse("9E") + parse("9E")).to_string(), "9223372036854775807");
    assert!(parse("1Gi") > parse("1G"));
    assert_eq!(parse("1.0001").to_whole(), 2);
    assert_eq!(parse("100u").to_milli(), 1);
    assert_eq!(parse("100u").round_up_to_milli().to_string(), "1m");
}

/// Texts that are, or nearly are, quantities.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[+-]?[0-9]{0,6}(\\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,2})?",
        "[+-]?[0-9.]{0,40}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,30}",
        ".{0,12}",
    ]
}

proptest! {
    #[test]
    fn the_canonical_form_is_a_fixed_point_of_the_same_amount(text in texts()) {
        if let Ok(quantity) = Quantity::bounded(&text) {
            let canonical = quantity.to_string();
            let again = parse(&canonical);
            prop_assert_eq!(again, quantity);
            prop_assert_eq!(again.to_string(), canonical);
        }
    }

    #[test]
    fn order_and_sums_survive_printing(left in texts(), right in texts()) {
        if let (Ok(a), Ok(b)) = (Quantity::bounded(&left), Quantity::bounded(&right)) {
            let (c, d) = (parse(&a.to_string()), parse(&b.to_string()));
            prop_assert_eq!(a.cmp(&b), c.cmp(&d));
            prop_assert_eq!(a + b, d + c);
            prop_assert_eq!((a + b) - (b + a), Quantity::ZERO);
        }
    }
}
