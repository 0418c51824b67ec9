//! The page: files that are part of the binary.

/// Limits the page to content that the board itself serves.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// Address, type and content.
const FILES: [(&str, &str, &str); 9] = [
    ("/actions.js", JAVASCRIPT, include_str!("page/actions.js")),
    ("/board.css", "text/css; charset=utf-8", include_str!("page/board.css")),
    ("/board.js", JAVASCRIPT, include_str!("page/board.js")),
    ("/format.js", JAVASCRIPT, include_str!("page/format.js")),
    ("/history.js", JAVASCRIPT, include_str!("page/history.js")),
    ("/lists.js", JAVASCRIPT, include_str!("page/lists.js")),
    ("/plot.js", JAVASCRIPT, include_str!("page/plot.js")),
    ("/table.js", JAVASCRIPT, include_str!("page/table.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

pub fn file(path: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().find(|(address, ..)| *address == path).map(|(_, kind, content)| (*kind, *content))
}

/// Returns the page itself. The token proves that a request for a change comes from the page.
pub fn index(token: &str, write: bool) -> String {
    include_str!("page/index.html")
        .replace("{token}", token)
        .replace("{write}", if write { "yes" } else { "no" })
}

/// Returns a page that only shows the reason for a refusal.
pub fn refusal(message: &str, hint: &str) -> String {
    include_str!("page/refusal.html")
        .replace("{message}", &escaped(message))
        .replace("{hint}", &escaped(hint))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_a_page_stays_text() {
        let page = refusal("role \"<script>alert(1)</script>\"", "a & b");
        assert!(page.contains("role &quot;&lt;script&gt;alert(1)&lt;/script&gt;&quot;"));
        assert!(page.contains("a &amp; b") && !page.contains("<script"));
    }

    #[test]
    fn page_loads_nothing_from_elsewhere_and_has_no_inline_code() {
        let page = index("7f7f", false);
        assert!(page.contains("data-token=\"7f7f\"") && page.contains("data-write=\"no\""));
        for (address, _, content) in FILES.iter().chain([&("/", "", page.as_str())]) {
            let elsewhere = content.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("//www.") && !elsewhere.contains("http"), "{address}");
        }
        assert!(!page.contains("style=") && !page.contains("<style") && !page.contains("onclick"));
        for part in page.split("<script").skip(1) {
            assert!(part.contains("src=") && part.contains("></script>"), "{part}");
        }
        assert!(FILES.iter().all(|(_, _, content)| !content.contains("innerHTML")));
    }
}
