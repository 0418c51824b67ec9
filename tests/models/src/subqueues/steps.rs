//! The longer steps of a transaction.

use super::state::{Action, IDLE, Phase, Process, Row, State, position};
use super::{BUCKETS, ENTRIES, Flaw, ID, PROCESSES, SUBQUEUE, Subqueues, TASKS};
use xqueue_core::level::UNKNOWN;
use xqueue_core::position::{LAST, Position};
use xqueue_core::subqueues::{Back, Entry, Header, SubqueueRing};
use xqueue_core::transaction::SubqueueChange;

impl Subqueues {
    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Locks and takes the first task, or ends without a task.
    pub(super) fn lock(&self, state: &mut State, process: usize) -> Option<()> {
        let phase = state.processes[process].phase;
        let Phase::Looked { first, is_alone } = phase else { return None };
        let before = state.processes[process].change;
        let is_free = |task: &usize| {
            !state.is_locked(*task, process) && state.seen(process, *task) == Row::Ready
        };
        let locked = first.filter(is_free);
        let is_held = first.is_some() && locked.is_none();
        let sees_all = is_alone && !before.lost;
        match locked {
            Some(task) => {
                state.has_taken(process, task);
                if sees_all {
                    self.end_look(state, position(task));
                }
                state.processes[process].phase = Phase::Open;
            }
            None => {
                state.processes[process].change.exhausted = true;
                if !is_held && sees_all {
                    self.end_look(state, LAST);
                }
                let stays = is_held || before.is_seen_otherwise();
                state.processes[process].phase = Phase::Vain { stays };
            }
        }
        Some(())
    }

    pub(super) fn set_clear(&self, state: &mut State) {
        let mut pool = state.pool();
        if self.has(Flaw::SettledKept)
            && let Some(link) = pool.claimed(ID, SUBQUEUE)
        {
            pool.entry(link).clear = true;
        } else {
            pool.set_clear(ID, SUBQUEUE);
        }
    }

    pub(super) fn end_look(&self, state: &mut State, first: Position) {
        let mut pool = state.pool();
        if self.has(Flaw::MarkWithoutFloor)
            && let Some(link) = pool.find(ID.index, SUBQUEUE)
        {
            pool.entry(link).mark = first;
        } else {
            pool.end_look(ID, SUBQUEUE, first, UNKNOWN);
        }
    }

    pub(super) fn give_back(&self, state: &mut State, to: Back) {
        let mut pool = state.pool();
        if self.has(Flaw::DirtyIgnored)
            && let Some(link) = pool.find(ID.index, SUBQUEUE)
        {
            pool.entry(link).dirty = false;
        }
        pool.give_back(ID, SUBQUEUE, to);
    }

    pub(super) fn callback(&self, state: &mut State, process: usize) {
        let change = state.processes[process].change;
        if change == SubqueueChange::default() {
            return;
        }
        let mut pool = state.pool();
        if self.has(Flaw::SettledIgnored)
            && let Some(link) = pool.find(ID.index, SUBQUEUE)
        {
            pool.entry(link).settled = false;
        }
        pool.commit(ID, SUBQUEUE, &change);
    }

    pub(super) fn process_actions(&self, state: &State, process: usize, actions: &mut Vec<Action>) {
        let Process { phase, change, .. } = state.processes[process];
        let may_change = matches!(phase, Phase::Idle | Phase::Open);
        let rows = (0..TASKS).filter(|task| !state.is_locked(*task, process));
        for task in
            rows.filter(|task| may_change && state.processes[process].pending[*task].is_none())
        {
            match state.rows[task] {
                Row::Absent if state.left.puts > 0 => actions.push(Action::Put(process, task)),
                Row::Taken => {
                    actions.push(Action::Ack(process, task));
                    if state.left.releases > 0 {
                        actions.push(Action::Release(process, task));
                    }
                }
                Row::Ready if state.left.by_hand > 0 && phase == Phase::Idle => {
                    actions.push(Action::UpdateByHand(process, task));
                }
                _ => {}
            }
        }
        match phase {
            Phase::Idle | Phase::Open => {
                let is_next = state.clone().pool().next(ID).is_some();
                if state.left.takes > 0 && (is_next || change.is_left()) {
                    let early = self.has(Flaw::SnapshotBeforeClaim) && !change.is_left();
                    actions.push(match early {
                        true => Action::LookEarly(process),
                        false => Action::Claim(process),
                    });
                } else if phase == Phase::Idle && state.clone().pool().begin_scan(ID).is_some() {
                    actions.push(Action::BeginScan(process));
                }
                if phase == Phase::Open {
                    actions.push(Action::Commit(process));
                }
            }
            Phase::Early { .. } => actions.push(Action::Claim(process)),
            Phase::Claimed => actions.push(Action::See(process)),
            Phase::Seen { .. } => actions.push(Action::SetClear(process)),
            Phase::Free => actions.push(Action::BeginLook(process)),
            Phase::BegunLook { .. } => actions.push(Action::Look(process)),
            Phase::Looked { .. } => actions.push(Action::Lock(process)),
            Phase::Vain { .. } => actions.push(Action::GiveBack(process)),
            Phase::UpdatedByHand(_) => actions.push(Action::ClaimByHand(process)),
            Phase::ClaimedByHand(_) => actions.push(Action::SeeByHand(process)),
            Phase::Scans(..) => actions.push(Action::EndScan(process)),
            Phase::Freed => actions.push(Action::Commit(process)),
            Phase::Visible => actions.push(Action::Callback(process)),
            Phase::Undone => actions.push(Action::Undo(process)),
        }
        if phase == Phase::Open && state.left.rollbacks > 0 {
            actions.push(Action::Rollback(process));
        }
    }

    pub(super) fn crash(&self, state: &mut State) {
        state.processes = [IDLE; PROCESSES];
        (state.header, state.rings) = (Header::default(), [SubqueueRing::default()]);
        (state.entries, state.buckets) = ([Entry::default(); ENTRIES], [0; BUCKETS]);
        state.pool().open(ID);
        state.left.crashes -= 1;
    }
}
