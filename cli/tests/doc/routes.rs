//! The routes that a crate serves, read from its source.

use super::files;
use std::collections::BTreeSet;
use std::path::Path;

/// A path template and a method, such as `GET /healthz`; `ANY` for every method.
pub type Route = String;

const METHODS: [&str; 6] = ["get", "post", "put", "patch", "delete", "any"];

/// One call of `.route(path, methods)`, `.nest(path, function())` or `.merge(function())`, which nests below
/// nothing.
struct Call {
    function: String,
    nested: Option<String>,
    path: String,
    methods: Vec<String>,
}

/// Every route below a folder of source. Those that are nested stand under each place where they are.
pub fn of(folder: &Path) -> BTreeSet<Route> {
    let calls: Vec<Call> = files(folder, "rs").iter().flat_map(|file| calls(file)).collect();
    let mut routes = BTreeSet::new();
    for call in calls.iter().filter(|call| call.nested.is_none()) {
        let places = places(&calls, &call.function);
        for (place, method) in places.iter().flat_map(|place| call.methods.iter().map(move |m| (place, m))) {
            routes.insert(format!("{} {place}{}", method.to_uppercase(), call.path));
        }
    }
    routes
}

/// The paths below which the routes of a function stand.
fn places(calls: &[Call], function: &str) -> Vec<String> {
    let mut found = Vec::new();
    for nest in calls.iter().filter(|nest| nest.nested.as_deref() == Some(function)) {
        found.extend(places(calls, &nest.function).iter().map(|place| format!("{place}{}", nest.path)));
    }
    if found.is_empty() { vec![String::new()] } else { found }
}

fn calls(file: &Path) -> Vec<Call> {
    let source = std::fs::read_to_string(file).unwrap();
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let (mut found, mut function) = (Vec::new(), String::new());
    let mut at = 0;
    while let Some(next) = ["fn ", ".route(", ".nest(", ".merge("]
        .iter()
        .filter_map(|word| code[at..].find(word).map(|place| (at + place, *word)))
        .min()
    {
        let (place, word) = next;
        at = place + word.len();
        if word == "fn " {
            function = code[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            continue;
        }
        let arguments = arguments(&code[at..]);
        if word == ".merge(" {
            let nested = arguments.strip_suffix("()").map(str::to_owned);
            let merged = |nested| Call {
                function: function.clone(),
                nested: Some(nested),
                path: String::new(),
                methods: Vec::new(),
            };
            found.extend(nested.map(merged));
            continue;
        }
        let mut parts = arguments.splitn(3, '"');
        let (Some(_), Some(path), Some(rest)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let is_call = |method: &&&str| {
            let called = format!("{method}(");
            rest.match_indices(&called)
                .any(|(at, _)| !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        };
        let methods = METHODS.iter().filter(is_call).map(|method| (*method).to_owned()).collect();
        let nested = (word == ".nest(").then(|| rest.trim_matches([',', ' ', '(', ')', '\n']).to_owned());
        found.push(Call { function: function.clone(), nested, path: path.to_owned(), methods });
    }
    found
}

/// The text up to the parenthesis that closes the call.
fn arguments(code: &str) -> &str {
    let mut depth = 1;
    for (at, c) in code.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &code[..at];
        }
    }
    code
}

#[test]
fn routes_are_found_however_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let source = "fn inner() -> Routes {\n Routes::new().merge(innermost()).route(\"/a/{id}\", get(x::get).delete(x::delete))\n}\n\
                  fn innermost() { Routes::new().route(\"/c\", get(c)) }\n\
                  fn outer() { Routes::new().nest(\"/one\", inner()).nest(\"/two\", inner())\n\
                  .route(\n\"/b\",\n axum::routing::any(no_post),\n) }\n\
                  #[cfg(test)] mod tests { fn x() { r.route(\"/test\", get(x)) } }";
    std::fs::write(folder.path().join("app.rs"), source).unwrap();
    let found: Vec<_> = of(folder.path()).into_iter().collect();
    assert_eq!(
        found,
        [
            "ANY /b",
            "DELETE /one/a/{id}",
            "DELETE /two/a/{id}",
            "GET /one/a/{id}",
            "GET /one/c",
            "GET /two/a/{id}",
            "GET /two/c"
        ]
    );
}
