//! The console that a hub serves for a team.

use std::net::TcpListener;

use crate::driver::Browser;
use crate::fleet::Fleet;
use crate::stories::{accessible, confirm, pictures, skipped};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn people_sign_in_with_their_own_token_and_do_what_their_roles_allow() {
    if skipped() {
        return;
    }
    let fleet = Fleet::new("console-team");
    for line in [
        "kubectl --context hub create serviceaccount ana -n default",
        "kubectl --context hub create clusterrole reader --verb=get,list,watch --resource='*.placement.kubernetes-fleet.io,*.cluster.kubernetes-fleet.io'",
        "kubectl --context hub create clusterrolebinding reader --clusterrole=reader --serviceaccount=default:ana",
    ] {
        fleet.line(line);
    }
    let token = fleet.line("kubectl --context hub -n default create token ana");
    let browser = Browser::start();

    // Without --console-verbs everybody only looks.
    let shown = fleet.team(free_port(), "");
    browser.open(&shown.link);
    browser.until("document.querySelector('.sign-in input')");
    accessible(&browser, "sign-in");
    pictures(&browser, "sign-in");
    browser.run("document.getElementById('token').focus()");
    browser.keys("wrong");
    browser.click(".sign-in button", "Sign in");
    browser.until(
        "document.getElementById('wrong').textContent.includes('does not accept this token')",
    );
    browser.run("document.getElementById('token').select()");
    browser.keys(token.trim());
    browser.click(".sign-in button", "Sign in");
    browser.until(
        "document.querySelector('#me')?.textContent.includes('system:serviceaccount:default:ana')",
    );
    let readable = browser.run("return document.cookie");
    assert_eq!(readable, "", "no script reads the token");
    browser.click(".line", "◇Approval");
    browser
        .until("document.querySelector('.verb[aria-disabled]')?.title.includes('--console-verbs')");
    browser.click("#me button", "Sign out");
    browser.until("document.querySelector('.sign-in')");
    drop(shown);

    // With it, roles decide: ana lacks the right, then gets it, and approves as herself.
    let acting = fleet.team(free_port(), "--console-verbs");
    browser.open(&acting.link);
    browser.until("document.querySelector('.sign-in input')");
    browser.run("document.getElementById('token').focus()");
    browser.keys(token.trim());
    browser.click(".sign-in button", "Sign in");
    browser.click(".line", "◇Approval");
    browser.until(
        "document.querySelector('.verb[aria-disabled]')?.title.includes('You lack the right')",
    );
    fleet.line("kubectl --context hub create clusterrole approver --verb=get,patch,update --resource=clusterapprovalrequests.placement.kubernetes-fleet.io,clusterapprovalrequests.placement.kubernetes-fleet.io/status");
    fleet.line("kubectl --context hub create clusterrolebinding approver --clusterrole=approver --serviceaccount=default:ana");
    browser.click(".verb:not([aria-disabled])", "Approve staging");
    confirm(&browser);
    browser.until("document.querySelector('.strip .g-passed')?.textContent.includes('staging')");
}
