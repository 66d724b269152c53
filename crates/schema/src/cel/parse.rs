//! Parsing with room enough.
//!
//! The parser, and whoever walks what it made, goes down as deep as an expression nests, and
//! a stack that is used up ends the process. So what may nest deep by the look of it is
//! parsed on a stack of its own, and refused there if it does.

use cel::Program;
use cel::common::ast::IdedExpr;

use super::library;
use super::meter::children;

/// Expressions may nest this deep, as in Kubernetes.
const MAX_NESTING: usize = 250;
/// Longer expressions are refused: parsing them is not free.
const MAX_LENGTH: usize = 16 * 1024;
/// Longer than this, or with more brackets or links of chains, an expression is parsed apart.
/// The length is for links that are words, such as `in`.
const SHORT: usize = 512;
const FEW_BRACKETS: usize = 8;
const FEW_LINKS: usize = 200;
/// Enough for the longest expression there may be; only what is used is taken.
const STACK: usize = 256 << 20;

/// Parses an expression; what is wrong with it, in cel-go's form.
pub(super) fn parse(source: &str) -> Result<Program, String> {
    if source.len() > MAX_LENGTH {
        return Err(format!("expression is longer than {MAX_LENGTH} bytes"));
    }
    let count = |of: &str| source.chars().filter(|c| of.contains(*c)).count();
    let is_short = source.len() <= SHORT;
    if is_short && count("([{") <= FEW_BRACKETS && count(".([{?!+-*/%<>=") <= FEW_LINKS {
        return checked(source);
    }
    let apart = std::thread::Builder::new().stack_size(STACK);
    std::thread::scope(|scope| {
        let parsing = apart.spawn_scoped(scope, || checked(source));
        let parsed = parsing.map_err(|why| format!("the expression cannot be parsed: {why}"))?;
        parsed.join().unwrap_or_else(|_| Err("the expression cannot be parsed".to_owned()))
    })
}

fn checked(source: &str) -> Result<Program, String> {
    let program = library::env()
        .compile(source)
        .map_err(|errors| errors.to_string().replace("\n| ", "\n | "))?;
    match fits(program.expression(), MAX_NESTING) {
        true => Ok(program),
        false => {
            Err(format!("ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_NESTING}"))
        }
    }
}

fn fits(expr: &IdedExpr, room: usize) -> bool {
    if room == 0 {
        return false;
    }
    let mut all = true;
    children(expr, &mut |child| all = all && fits(child, room - 1));
    all
}

#[cfg(test)]
mod tests {
    use crate::Program;

    #[test]
    fn longer_expressions_than_may_be_are_not_parsed() {
        let longest = format!("'{}'", "a".repeat(super::MAX_LENGTH - 2));
        assert!(super::parse(&longest).is_ok());
        let told = super::parse(&format!("{longest} ")).err();
        assert_eq!(told.as_deref(), Some("expression is longer than 16384 bytes"));
    }

    #[test]
    fn expressions_as_deep_as_they_can_be_are_refused_and_nothing_breaks() {
        let deep = [
            format!("object{}", ".a".repeat(8000)),
            format!("object{}", "[0]".repeat(5000)),
            format!("{}1{}", "(".repeat(8000), ")".repeat(8000)),
            format!("{}1{}", "[".repeat(8000), "]".repeat(8000)),
            vec!["object.a"; 1800].join("+"),
            vec!["1"; 3200].join(" in "),
            format!("object.a{}", ".all(x,x".repeat(1000)) + &")".repeat(1000),
            format!("{}1{}", "size(".repeat(2000), ")".repeat(2000)),
            // Brackets in texts do not hide those that count.
            format!("{}1{}", "(\")\"+".repeat(2000), ")".repeat(2000)),
        ];
        for source in deep {
            assert!(Program::condition(&source).is_err(), "{}", &source[..20]);
        }
        let fine = [
            format!("object{} == 1", ".a".repeat(200)),
            format!("{}true{}", "(".repeat(20), ")".repeat(20)),
            vec!["object.a.b == 'c'"; 600].join(" || "),
            format!("{}true", "!".repeat(4000)),
        ];
        for source in fine {
            assert!(Program::condition(&source).is_ok(), "{}", &source[..20]);
        }
    }
}
