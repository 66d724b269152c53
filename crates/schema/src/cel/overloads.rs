//! Which functions and operators take what, as far as `typed` needs it.
//!
//! A function that is not here takes anything: it may be one that we do not know.

use cel::common::ast::operators;

use super::typed::{Kind, maybe};

/// A letter for each type: `b`ool, `i`nt, `u`int, `d`ouble, `s`tring, b`y`tes, `t`imestamp,
/// `p`eriod, `q`uantity, `L`ist, `M`ap and `*` for any. What comes before a dot is called upon.
const FUNCTIONS: &[(&str, &[&str], char)] = &[
    (operators::LESS, COMPARED, 'b'),
    (operators::LESS_EQUALS, COMPARED, 'b'),
    (operators::GREATER, COMPARED, 'b'),
    (operators::GREATER_EQUALS, COMPARED, 'b'),
    (operators::MULTIPLY, &["ii", "uu", "dd"], '='),
    (operators::DIVIDE, &["ii", "uu", "dd"], '='),
    (operators::MODULO, &["ii", "uu"], '='),
    (operators::NEGATE, &["i", "d"], '='),
    (operators::LOGICAL_NOT, &["b"], 'b'),
    ("size", &["s", "y", "L", "M", "s.", "y.", "L.", "M."], 'i'),
    ("startsWith", &["s.s"], 'b'),
    ("endsWith", &["s.s"], 'b'),
    ("contains", &["s.s"], 'b'),
    ("matches", &["s.s", "ss"], 'b'),
    ("lowerAscii", &["s."], 's'),
    ("upperAscii", &["s."], 's'),
    ("trim", &["s."], 's'),
    ("charAt", &["s.i"], 's'),
    ("replace", &["s.ss", "s.ssi"], 's'),
    ("substring", &["s.i", "s.ii"], 's'),
    ("split", &["s.s", "s.si"], 'S'),
    ("join", &["L.", "L.s"], 's'),
    ("int", &["i", "u", "d", "s", "t", "p"], 'i'),
    ("uint", &["i", "u", "d", "s"], 'u'),
    ("double", &["i", "u", "d", "s"], 'd'),
    ("bool", &["b", "s"], 'b'),
    ("string", &["b", "i", "u", "d", "s", "y", "t", "p"], 's'),
    ("bytes", &["s", "y"], 'y'),
    ("timestamp", &["s", "i", "t"], 't'),
    ("duration", &["s", "i", "p"], 'p'),
    ("quantity", &["s"], 'q'),
    ("isGreaterThan", &["q.q"], 'b'),
    ("isLessThan", &["q.q"], 'b'),
];

/// Numbers of different types have an order, but are never equal to the checker.
const COMPARED: &[&str] =
    &["bb", "ii", "uu", "dd", "ss", "yy", "tt", "pp", "iu", "id", "ui", "ud", "di", "du"];

/// The type of what a call returns; `None` when it cannot be made with these.
pub(super) fn result<'s>(
    name: &str,
    target: Option<&Kind<'s>>,
    args: &[Kind<'s>],
) -> Option<Kind<'s>> {
    match (name, target, args) {
        (operators::EQUALS | operators::NOT_EQUALS, None, [a, b]) => {
            a.fits(b).then_some(Kind::Bool)
        }
        (operators::ADD | operators::SUBSTRACT, None, [a, b]) => sum(name, a, b),
        (operators::CONDITIONAL, None, [test, a, b]) => {
            (test.fits(&Kind::Bool) && a.fits(b)).then(|| either(a, b))
        }
        (operators::IN, None, [one, many]) => match many {
            Kind::Dyn | Kind::Maybe(_) => Some(Kind::Bool),
            Kind::List(known) | Kind::Map(known, _) => one.fits(known).then_some(Kind::Bool),
            _ => None,
        },
        (operators::INDEX, None, [of, key]) => element(of, key),
        (operators::OPT_INDEX, None, [of, key]) => element(of, key).map(maybe),
        ("orValue", Some(Kind::Maybe(inner)), [other]) => {
            inner.fits(other).then(|| either(inner, other))
        }
        ("value", Some(Kind::Maybe(inner)), []) => Some((**inner).clone()),
        ("hasValue", Some(Kind::Maybe(_)), []) => Some(Kind::Bool),
        _ => match FUNCTIONS.iter().find(|(known, ..)| *known == name) {
            Some((_, shapes, makes)) => {
                let mut fitting = shapes.iter().filter(|shape| takes(shape, target, args));
                let first = fitting.next()?;
                Some(match makes {
                    '=' if fitting.next().is_some() => Kind::Dyn,
                    '=' => named(first.chars().next().unwrap_or('*')),
                    letter => named(*letter),
                })
            }
            None => Some(Kind::Dyn),
        },
    }
}

fn takes(shape: &str, target: Option<&Kind<'_>>, args: &[Kind<'_>]) -> bool {
    let (on, with) = match shape.split_once('.') {
        Some((on, with)) => (on.chars().next(), with),
        None => (None, shape),
    };
    let is = |kind: &Kind<'_>, letter| matches!(kind, Kind::Dyn) || kind.fits(&named(letter));
    let called = match (on, target) {
        (None, None) => true,
        (Some(letter), Some(kind)) => is(kind, letter),
        _ => false,
    };
    called
        && with.len() == args.len()
        && with.chars().zip(args).all(|(letter, kind)| is(kind, letter))
}

fn named<'s>(letter: char) -> Kind<'s> {
    let any = || Box::new(Kind::Dyn);
    match letter {
        'b' => Kind::Bool,
        'i' => Kind::Int,
        'u' => Kind::Uint,
        'd' => Kind::Double,
        's' => Kind::Text,
        'y' => Kind::Bytes,
        't' => Kind::Time,
        'p' => Kind::Span,
        'q' => Kind::Quantity,
        'L' => Kind::List(any()),
        'S' => Kind::List(Box::new(Kind::Text)),
        'M' => Kind::Map(any(), any()),
        _ => Kind::Dyn,
    }
}

/// `a + b` and `a - b`, which know lists and times besides numbers and texts.
fn sum<'s>(name: &str, a: &Kind<'s>, b: &Kind<'s>) -> Option<Kind<'s>> {
    use Kind::{Bytes, Double, Dyn, Int, List, Span, Text, Time, Uint};
    let adds = name == operators::ADD;
    Some(match (a, b) {
        (List(one), List(other)) if adds && one.fits(other) => List(either(one, other).inside()),
        (Int, Int) => Int,
        (Uint, Uint) => Uint,
        (Double, Double) => Double,
        (Text, Text) if adds => Text,
        (Bytes, Bytes) if adds => Bytes,
        (Time, Span) => Time,
        (Span, Time) if adds => Time,
        (Time, Time) if !adds => Span,
        (Span, Span) => Span,
        // What is unknown must be what the other is, or nothing comes of it.
        (Dyn, other) | (other, Dyn) => match other {
            Int | Uint | Double => other.clone(),
            Text | Bytes if adds => other.clone(),
            List(_) if adds => List(Box::new(Dyn)),
            Dyn | Time | Span => Dyn,
            _ => return None,
        },
        _ => return None,
    })
}

fn element<'s>(of: &Kind<'s>, key: &Kind<'s>) -> Option<Kind<'s>> {
    match of {
        Kind::Dyn => Some(Kind::Dyn),
        Kind::List(element) => key.fits(&Kind::Int).then(|| (**element).clone()),
        Kind::Map(known, value) => key.fits(known).then(|| (**value).clone()),
        Kind::Maybe(inner) => element(inner, key).map(maybe),
        _ => None,
    }
}

/// What two values have in common that fit each other.
fn either<'s>(a: &Kind<'s>, b: &Kind<'s>) -> Kind<'s> {
    match (a, b) {
        (Kind::Dyn, _) | (_, Kind::Dyn) => Kind::Dyn,
        (Kind::List(a), Kind::List(b)) => Kind::List(either(a, b).inside()),
        (Kind::Map(a, b), Kind::Map(c, d)) => {
            Kind::Map(either(a, c).keyed(), either(b, d).inside())
        }
        (Kind::Maybe(a), Kind::Maybe(b)) => maybe(either(a, b)),
        // Of two objects only one knows the fields; null has none.
        (Kind::Object(..) | Kind::Null, _) | (_, Kind::Null) => Kind::Dyn,
        (a, _) => a.clone(),
    }
}
