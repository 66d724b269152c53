//! The page itself, built into the binary: nothing is loaded from elsewhere, so it works
//! without a network.

/// One file of the page.
pub struct Asset {
    path: &'static str,
    /// Its `Content-Type`.
    pub media_type: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! assets {
    ($($path:literal => $file:literal, $media_type:expr;)+) => {
        const ALL: &[Asset] = &[$(Asset {
            path: $path,
            media_type: $media_type,
            bytes: include_bytes!(concat!("../assets/", $file)),
        },)+];
    };
}

assets! {
    "/" => "index.html", HTML;
    "/app.js" => "app.js", SCRIPT;
    "/dom.js" => "dom.js", SCRIPT;
    "/stream.js" => "stream.js", SCRIPT;
    "/home.js" => "home.js", SCRIPT;
    "/board.js" => "board.js", SCRIPT;
    "/cells.js" => "cells.js", SCRIPT;
    "/timeline.js" => "timeline.js", SCRIPT;
    "/why.js" => "why.js", SCRIPT;
    "/card.js" => "card.js", SCRIPT;
    "/drawer.js" => "drawer.js", SCRIPT;
    "/fleet.js" => "fleet.js", SCRIPT;
    "/placements.js" => "placements.js", SCRIPT;
    "/plan.js" => "plan.js", SCRIPT;
    "/sign-in.html" => "sign-in.html", HTML;
    "/sign-in.js" => "sign-in.js", SCRIPT;
    "/style.css" => "style.css", STYLE;
    "/icon.svg" => "icon.svg", PICTURE;
}

/// The file at this path.
pub fn find(path: &str) -> Option<&'static Asset> {
    ALL.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// What a browser downloads in all, compressed as a proxy would.
    const BUDGET: usize = 120 * 1024;

    #[test]
    fn all_of_the_page_fits_the_budget() {
        let packed: usize = ALL
            .iter()
            .map(|asset| {
                let best = flate2::Compression::best();
                let mut packer = flate2::write::GzEncoder::new(Vec::new(), best);
                packer.write_all(asset.bytes).unwrap();
                packer.finish().unwrap().len()
            })
            .sum();
        assert!(packed <= BUDGET, "{packed} bytes");
    }

    #[test]
    fn nothing_is_loaded_from_outside_and_nothing_is_markup() {
        for asset in ALL {
            let text = String::from_utf8_lossy(asset.bytes);
            let text = text.replace("http://www.w3.org/2000/svg", "");
            let foreign = ["https://", "http://", "src=\"//", "@import", "url(//"];
            for found in foreign {
                assert!(!text.contains(found), "{} has {found}", asset.path);
            }
            // Names and messages become text nodes, never markup or code.
            let markup =
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("];
            for found in markup {
                assert!(!text.contains(found), "{} has {found}", asset.path);
            }
        }
    }

    #[test]
    fn every_module_that_is_imported_is_served() {
        for asset in ALL.iter().filter(|asset| asset.media_type == SCRIPT) {
            let text = String::from_utf8_lossy(asset.bytes);
            let imports = text.lines().filter(|line| line.starts_with("import "));
            for line in imports {
                let named = line.split('"').nth(1).unwrap_or_default();
                let path = named.trim_start_matches('.');
                assert!(find(path).is_some(), "{} imports {named}", asset.path);
            }
        }
    }
}
