//! Makes a story smaller that breaks a law, as long as it still breaks the same one.
//!
//! Things are taken away in the order in which a reader would like to be rid of them: steps,
//! faults, members, stages, what is special about members, the second hub. Halves first, then
//! single ones, until nothing more can go.

use super::story::{Manner, Story};

/// The smallest story found that `breaks`, within so many tellings.
pub fn shrink(story: &Story, mut tellings: usize, mut breaks: impl FnMut(&Story) -> bool) -> Story {
    let mut best = story.clone();
    let mut try_out = |smaller: Story, best: &mut Story| {
        if tellings == 0 || smaller == *best {
            return false;
        }
        tellings -= 1;
        let better = breaks(&smaller);
        if better {
            *best = smaller;
        }
        better
    };
    loop {
        let before = best.clone();
        remove(&mut best, |story| &mut story.steps, &mut try_out);
        remove(&mut best, |story| &mut story.faults, &mut try_out);
        remove(&mut best, |story| &mut story.members, &mut try_out);
        remove(&mut best, |story| &mut story.stages, &mut try_out);
        for change in SIMPLER {
            let mut simpler = best.clone();
            change(&mut simpler);
            try_out(simpler, &mut best);
        }
        for at in 0..best.members.len() {
            let mut simpler = best.clone();
            simpler.members[at].manner = Manner::Plain;
            simpler.members[at].ready = 1;
            try_out(simpler, &mut best);
        }
        for at in 0..best.stages.len() {
            let mut simpler = best.clone();
            let stage = &mut simpler.stages[at];
            (stage.approve_before, stage.approve_after, stage.wait) = (false, false, 0);
            try_out(simpler, &mut best);
        }
        if best == before {
            return best;
        }
    }
}

/// Changes of the whole that make a story easier to read.
const SIMPLER: [fn(&mut Story); 4] = [
    |story| story.hubs.truncate(1),
    |story| story.hubs.iter_mut().for_each(|offset| *offset = 0),
    |story| story.rolling = false,
    |story| story.namespaced = false,
];

/// Takes items of a list away, in ever smaller pieces.
fn remove<T: Clone>(
    best: &mut Story,
    list: impl Fn(&mut Story) -> &mut Vec<T>,
    try_out: &mut impl FnMut(Story, &mut Story) -> bool,
) {
    let mut size = list(best).len();
    while size > 0 {
        let mut at = 0;
        while at < list(best).len() {
            let mut smaller = best.clone();
            let items = list(&mut smaller);
            let end = (at + size).min(items.len());
            items.drain(at..end);
            if !try_out(smaller, best) {
                at += size;
            }
        }
        size /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::story::{Shape, What, draw};

    #[test]
    fn what_does_not_matter_goes_and_what_matters_stays() {
        let seeds = (0..).map(|seed| draw(seed, Shape::CAMPAIGN));
        let edits = |story: &Story| {
            story.steps.iter().filter(|step| matches!(step.what, What::Edit(_))).count()
        };
        let story = seeds
            .into_iter()
            .find(|story| edits(story) >= 2 && story.faults.len() > 3 && story.members.len() > 3);
        let story = story.expect("one of them is large");
        let mut tellings = 0;
        let small = shrink(&story, 1000, |story| {
            tellings += 1;
            edits(story) >= 2 && story.faults.iter().any(|f| f.kind == story.faults[0].kind)
        });
        assert_eq!((small.steps.len(), small.faults.len()), (2, 1), "{small:?}");
        assert_eq!((small.members.len(), small.stages.len(), small.hubs.len()), (0, 0, 1));
        assert!(tellings < 200, "{tellings} tellings");
    }

    #[test]
    fn patience_ends() {
        let story = draw(1, Shape::CAMPAIGN);
        let mut tellings = 0;
        shrink(&story, 5, |_| {
            tellings += 1;
            false
        });
        assert_eq!(tellings, 5);
    }
}
