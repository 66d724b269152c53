//! Tests of rules as a whole: what they see, when they run, what they say.

use serde_json::{Value, json};

use super::library::KNOWN;
use crate::Compiled;

fn compile(schema: &Value) -> Compiled {
    Compiled::from_crd_version(schema).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn verdict(compiled: &Compiled, new: &Value, old: Option<&Value>) -> Vec<String> {
    compiled.validate(new, old).iter().map(ToString::to_string).collect()
}

/// A rule at `spec` over a bit of everything.
fn spec_with(rule: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "x-kubernetes-validations": [rule],
        "properties": {
            "s": {"type": "string"}, "t": {"type": "string"}, "i": {"type": "integer"}, "d": {"type": "number"},
            "when": {"type": "string", "format": "date-time"}, "long": {"type": "string", "format": "duration"},
            "raw": {"type": "string", "format": "byte"},
            "names": {"type": "array", "items": {"type": "string"}},
            "numbers": {"type": "array", "items": {"type": "integer"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "namespace": {"type": "string"}, "x-dash.dot/slash": {"type": "string"}, "a__b": {"type": "string"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        },
    }}})
}

fn holds(rule: &str, spec: &Value) -> Vec<String> {
    let compiled = compile(&spec_with(&json!({"rule": rule, "message": "no"})));
    assert_eq!(compiled.warnings(), [""; 0], "{rule}");
    verdict(&compiled, &json!({"spec": spec}), None)
}

#[test]
fn functions_of_kubernetes_are_there() {
    let spec = json!({
        "s": "Hello, World", "t": "a,b,c", "i": 7, "d": 2, "when": "2024-02-29T12:30:00Z", "long": "1h30m",
        "raw": "aGk=", "names": ["a", "b", "c"], "numbers": [1, 2, 3], "labels": {"k": "v", "kind": "w"},
        "namespace": "ns", "x-dash.dot/slash": "odd", "a__b": "under", "set": ["x", "y"],
    });
    for rule in [
        "self.s.lowerAscii() == 'hello, world'",
        "self.s.upperAscii().startsWith('HELLO')",
        "self.t.split(',') == ['a', 'b', 'c']",
        "['a', 'b', 'c'] == self.t.split(',')",
        "self.names == ['a', 'b', 'c'] && ['a', 'b', 'c'] == self.names",
        "self.names.join('-') == 'a-b-c'",
        "self.s.replace('World', 'You') == 'Hello, You'",
        "'  x '.trim() == 'x'",
        "self.s.substring(0, 5) == 'Hello'",
        "self.s.charAt(1) == 'e'",
        "self.s.indexOf('o') == 4 && self.s.lastIndexOf('o') == 8",
        "self.names.indexOf('b') == 1 && self.names.lastIndexOf('z') == -1",
        "self.names.isSorted() && !['b', 'a'].isSorted()",
        "self.numbers.sum() == 6 && self.numbers.min() == 1 && self.numbers.max() == 3",
        "self.s.find('[A-Z]o') == 'Wo' && self.t.findAll('[a-z]') == ['a', 'b', 'c']",
        "self.t.findAll('[a-z]', 2).size() == 2",
        "self.s.matches('^Hello') && matches(self.s, 'World$')",
        "'%s has %d'.format([self.s, self.i]) == 'Hello, World has 7'",
        "quantity('1.5Gi').isGreaterThan(quantity('1G')) && quantity('200m').compareTo(quantity('0.2')) == 0",
        "quantity('2k').add(5).asInteger() == 2005 && quantity('1').sub(quantity('1')).sign() == 0",
        "isQuantity('5Mi') && !isQuantity('5 apples') && quantity('1500m').isInteger() == false",
        "quantity('0.5').asApproximateFloat() < 0.6",
        // As large as quantities get: the largest whole number, and no larger.
        "quantity('1e400').compareTo(quantity('9223372036854775807')) == 0 && isQuantity('1e-12')",
        "isURL('https://h:80/p?q') && !isURL('::')",
        "url('https://user@h:80/p?q').getHost() == 'h:80' && url('https://h:80/p').getPort() == '80'",
        "url('http://[::1]:80/').getHostname() == '::1' && url('http://h/a/b').getEscapedPath() == '/a/b' && url('http://h').getScheme() == 'http'",
        "isIP('10.0.0.1') && ip('::1').family() == 6 && ip('127.0.0.1').isLoopback() && !isIP('x')",
        "ip.isCanonical('::1') && string(ip('10.0.0.1')) == '10.0.0.1' && ip('8.8.8.8').isGlobalUnicast()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.0'))",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8 && isCIDR('10.0.0.0/8')",
        "sets.contains(self.names, ['a']) && sets.equivalent(self.names, ['c', 'b', 'a']) && sets.intersects(self.names, ['z', 'a'])",
        "self.when.getFullYear() == 2024 && self.when < timestamp('2025-01-01T00:00:00Z')",
        "self.long > duration('1h') && self.long.getMinutes() == 90",
        "self.raw == b'hi'",
        "type(self.i) == int && type(self.d) == double && self.d == 2.0 && self.d > 1",
        "self.__namespace__ == 'ns' && has(self.__namespace__)",
        "self.x__dash__dash__dot__dot__slash__slash == 'odd'",
        "self.a__underscores__b == 'under'",
        "self.labels['k'] == 'v' && 'kind' in self.labels && self.labels.all(k, self.labels[k].size() == 1)",
        "self.labels.k == 'v' && self.labels.size() == 2 && has(self.labels.kind) && !has(self.labels.none)",
        "self.set == ['y', 'x'] && 'x' in self.set && self.set.exists(e, e == 'y')",
        "self.numbers.map(n, n * 2) == [2, 4, 6] && self.numbers.filter(n, n > 1).size() == 2 && self.numbers.exists_one(n, n == 2)",
        "(self.numbers + [4]).size() == 4 && ([0] + self.numbers)[3] == 3",
        "self.?s.orValue('') != '' && !self.?labels[?'none'].hasValue()",
        "has(self.s) && self.i % 2 == 1 && -self.i < 0 && self.i / 2 == 3",
        "self.names[0] == 'a' && self.names.size() == 3 && size(self.s) == 12",
        "math.greatest(self.i, 3) == 7 && math.abs(-2) == 2",
        "self.names.sort() == self.names && [3, 1].sort()[0] == 1 && [[1], [2]].flatten().size() == 2",
        "dyn(self.i) == 7 && string(self.i) == '7' && int('7') == self.i && double(self.i) == 7.0",
    ] {
        assert_eq!(holds(rule, &spec), [""; 0], "{rule}");
    }
    assert_eq!(holds("self.names.max() == 'a'", &spec), [r#"spec: Invalid value: "object": no"#]);
}

#[test]
fn every_known_function_is_callable() {
    // A name in the list that the interpreter lacks would fail open without a warning.
    for name in KNOWN.iter().filter(|n| !n.starts_with('@')) {
        let calls = ["", "x", "x, x", "x, x, x"]
            .iter()
            .flat_map(|args| {
                [
                    format!("[1].all(x, {name}({args}) == 1)"),
                    format!("[1].all(x, x.{name}({args}) == 1)"),
                ]
            })
            .collect::<Vec<_>>();
        let known = calls.iter().any(|call| {
            let env = super::library::env();
            let Ok(program) = env.compile(call) else { return true };
            let context = cel::Context::with_env(env);
            !matches!(program.execute(&context), Err(cel::ExecutionError::UndeclaredReference(f)) if name.ends_with(f.as_str()))
        });
        assert!(known, "{name}");
    }
}

#[test]
fn a_transition_rule_runs_only_where_old_and_new_are_the_same_thing() {
    let rule = json!([{"rule": "self.v >= oldSelf.v", "message": "may not shrink"}]);
    let item = json!({"type": "object", "x-kubernetes-validations": rule,
        "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}});
    let compiled = compile(&json!({"type": "object", "properties": {
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item},
        "plain": {"type": "array", "items": item},
        "map": {"type": "object", "additionalProperties": item},
    }}));
    let state = |v: i64| {
        json!({
            "keyed": [{"k": "other", "v": 9}, {"k": "a", "v": v}], "plain": [{"k": "a", "v": v}],
            "map": {"a": {"v": v}},
        })
    };
    let mut new = state(1);
    new["keyed"].as_array_mut().unwrap().swap(0, 1);
    assert_eq!(
        verdict(&compiled, &new, Some(&state(2))),
        [
            r#"keyed[0]: Invalid value: "object": may not shrink"#,
            r#"map[a]: Invalid value: "object": may not shrink"#,
        ]
    );
    assert_eq!(verdict(&compiled, &state(1), None), [""; 0]);
    assert_eq!(verdict(&compiled, &json!({"map": {"b": {"v": 0}}}), Some(&state(2))), [""; 0]);
}

#[test]
fn message_reason_and_field_shape_the_finding() {
    let spec = json!({"i": 5, "s": "x"});
    for (rule, expected) in [
        (
            json!({"rule": "self.i > 9"}),
            r#"spec: Invalid value: "object": failed rule: self.i > 9"#,
        ),
        (
            json!({"rule": "self.i > 9", "message": "small", "messageExpression": "'i is ' + string(self.i)"}),
            r#"spec: Invalid value: "object": i is 5"#,
        ),
        (
            json!({"rule": "self.i > 9", "message": "small", "messageExpression": "self.names[0]"}),
            r#"spec: Invalid value: "object": small"#,
        ),
        (
            json!({"rule": "self.i > 9", "message": "small", "fieldPath": ".i", "reason": "FieldValueForbidden"}),
            "spec.i: Forbidden: small",
        ),
        (
            json!({"rule": "self.i > 9", "message": "small", "reason": "FieldValueRequired"}),
            "spec: Required value: small",
        ),
        (
            json!({"rule": "self.i > 9", "message": "m", "reason": "FieldValueDuplicate"}),
            r#"spec: Duplicate value: "object""#,
        ),
        (
            json!({"rule": "self.i > 9", "message": "m", "fieldPath": ".labels['a.b']"}),
            r#"spec.labels[a.b]: Invalid value: "object": m"#,
        ),
        (
            json!({"rule": "self.t == ''", "message": "m"}),
            r#"spec: Invalid value: "object": no such key: t evaluating rule: m"#,
        ),
        (
            json!({"rule": "self.i / 0 == 1"}),
            r#"spec: Invalid value: "object": division by zero evaluating rule: self.i / 0 == 1"#,
        ),
        (
            json!({"rule": "self.i == 5 && dyn(self.s) > 3", "message": "m"}),
            r#"spec: Invalid value: "object": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: m"#,
        ),
    ] {
        let compiled = compile(&spec_with(&rule));
        assert_eq!(verdict(&compiled, &json!({"spec": spec}), None), [expected], "{rule}");
    }
}

#[test]
fn an_optional_old_self_is_there_on_create_too() {
    let rule = json!({"rule": "oldSelf.hasValue() || self.i == 1", "message": "starts at one", "optionalOldSelf": true});
    let compiled = compile(&spec_with(&rule));
    let at = |i: i64| json!({"spec": {"i": i}});
    assert_eq!(verdict(&compiled, &at(1), None), [""; 0]);
    assert_eq!(
        verdict(&compiled, &at(2), None),
        [r#"spec: Invalid value: "object": starts at one"#]
    );
    assert_eq!(verdict(&compiled, &at(2), Some(&at(1))), [""; 0]);
}

#[test]
fn a_broken_rule_on_an_unchanged_part_is_forgiven() {
    let compiled = compile(&spec_with(&json!({"rule": "self.i > 9", "message": "small"})));
    let old = json!({"metadata": {"name": "a"}, "spec": {"i": 5}});
    let new = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"i": 5}});
    assert_eq!(verdict(&compiled, &new, Some(&old)), [""; 0]);
    assert_eq!(verdict(&compiled, &json!({"spec": {"i": 6}}), Some(&old)).len(), 1);
}

#[test]
fn nothing_is_asked_of_null_or_of_broken_objects() {
    let mut schema = spec_with(&json!({"rule": "self.i > 9", "message": "small"}));
    schema["properties"]["spec"]["nullable"] = json!(true);
    let compiled = compile(&schema);
    assert_eq!(verdict(&compiled, &json!({"spec": null}), None), [""; 0]);
    assert_eq!(
        verdict(&compiled, &json!({"spec": {"i": "x"}}), None),
        [
            r#"spec.i: Invalid value: "string": spec.i in body must be of type integer: "string""#,
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ]
    );
}

#[test]
fn rules_that_cannot_work_are_told_with_their_place() {
    for (rule, expected) in [
        (
            "self.foo == 1",
            "compilation failed: ERROR: <input>:1:5: undefined field 'foo'\n | self.foo == 1\n | ....^",
        ),
        (
            "self.names.all(n, m == n)",
            "compilation failed: ERROR: <input>:1:19: undeclared reference to 'm' (in container '')\n | self.names.all(n, m == n)\n | ..................^",
        ),
        (
            "self.i.x == 1",
            "compilation failed: ERROR: <input>:1:7: type 'int' does not support field selection\n | self.i.x == 1\n | ......^",
        ),
        ("self.i + 1", "cel expression must evaluate to a bool"),
        ("'text'", "cel expression must evaluate to a bool"),
    ] {
        let errors = Compiled::from_crd_version(&spec_with(&json!({"rule": rule}))).unwrap_err();
        assert_eq!(errors[0].detail, expected, "{rule}");
    }
    let errors = Compiled::from_crd_version(&spec_with(&json!({"rule": "self.i ="}))).unwrap_err();
    assert!(errors[0].detail.starts_with("compilation failed: ERROR: <input>:1:"), "{errors:?}");
}

#[test]
fn a_rule_with_a_function_we_lack_is_skipped_with_a_warning() {
    let compiled = compile(&spec_with(&json!({"rule": "semver(self.s).major() > 1"})));
    assert_eq!(verdict(&compiled, &json!({"spec": {"s": "1.0.0"}}), None), [""; 0]);
    assert_eq!(
        compiled.warnings(),
        [
            "validation rule is not checked, because this server has no function major, semver: semver(self.s).major() > 1"
        ]
    );
}

#[test]
fn hostile_rules_and_objects_end_in_time() {
    let many: Vec<i64> = (0..5_000).collect();
    let spec = json!({"numbers": many, "s": "x".repeat(200_000)});
    let too_expensive =
        "no further validation rules will be run due to call cost exceeds limit for rule: no";
    for rule in [
        "self.numbers.all(a, self.numbers.all(b, self.numbers.all(c, a + b + c >= 0)))",
        "self.numbers.map(a, self.numbers.map(b, a * b)).size() > 0",
        "[self.numbers.map(x, x)].all(m, m.all(a, m.all(b, m.all(c, c >= 0))))",
        "self.numbers.all(a, self.s.contains('y') || self.s.matches('y$') || true)",
        "self.numbers.map(a, self.s + self.s).size() > 0",
        "self.numbers.all(a, self == self)",
    ] {
        let found = holds(rule, &spec);
        assert!(found.len() == 1 && found[0].ends_with(too_expensive), "{rule}: {found:?}");
    }
    let cheap = "self.numbers.all(a, a >= 0) && self.numbers.map(a, a * 2).size() == 5000";
    assert_eq!(holds(cheap, &spec), [""; 0]);
}
