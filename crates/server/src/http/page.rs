//! Pages for people: one file each, with everything they need in it.

use super::answer::Answer;

const STYLE: &str = include_str!("page/style.css");
const PIECES: &str = include_str!("page/pieces.js");

impl Answer {
    /// A page called `title`: the elements of `body`, and a script that fills them with what
    /// `page/pieces.js` has: `table`, `tiles`, `number`, `bytes`, `time`, `duration`. All three are
    /// this program's own words, and MUST hold nothing that came from elsewhere.
    pub fn page(title: &str, body: &str, script: &str) -> Self {
        let html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n{body}<script>\n{PIECES}\n{script}</script>\n</body>\n</html>\n"
        );
        Self::ok("text/html; charset=utf-8", html)
    }

    /// JSON.
    pub fn json(body: impl Into<String>) -> Self {
        Self::ok("application/json", body)
    }
}
