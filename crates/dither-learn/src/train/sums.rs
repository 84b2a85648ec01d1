//! The exact sum of a step: clipped gradients, part by part, on several threads.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use dither_core::GateError;

use crate::model::{Clipping, Model, Observed};
use crate::nn::{Buffer, add_to};
use crate::train::adaptive::counted;
use crate::train::data::Table;
use crate::train::noise::CHUNK;
use crate::train::plan::DpPlan;

/// What adding up a sample takes.
pub(crate) struct Adder<'a, M: ?Sized> {
    pub model: &'a M,
    pub table: &'a Table,
    pub plan: &'a DpPlan,
    /// The clipping norm of the step.
    pub bound: f64,
    /// How many units are handed to the model at once, at most.
    pub physical: usize,
    /// How many threads work, at most.
    pub threads: usize,
}

/// Some units of a part.
struct Chunk<'a> {
    units: &'a [u32],
    /// How many units the whole part has.
    part: usize,
    first: bool,
    last: bool,
}

/// What threads share.
struct Turn<'a> {
    /// The chunk that is taken next.
    taken: usize,
    /// The chunk that is added next.
    added: usize,
    sum: &'a mut [i64],
    /// Whether nothing was added to it yet, so that what is in it counts nothing.
    empty: bool,
    /// The sum so far of a part that has several chunks.
    part: Buffer,
    observed: Observed,
    /// What units counted, of adaptive clipping.
    counted: u64,
    failure: Option<String>,
}

impl<M: Model + ?Sized> Adder<'_, M> {
    /// Overwrites `sum` with the lattice sums of all parts together, and says what units count together, if the model tells
    /// norms.
    ///
    /// A part is cut into even chunks of at most `physical` units, but not outside of [`CHUNK`], which the allowance for
    /// floats asks for. Each is computed by one thread, from zero, and chunks are added in their order. So no bit depends on
    /// the number of threads or on who was faster: a step that is executed again is the same step.
    ///
    /// # Errors
    /// What the model says, and a sum that clipped gradients cannot have; norms that are not told, where they are needed.
    pub fn add(&self, parts: &[Vec<u32>], sum: &mut [i64]) -> Result<(Observed, u64), String> {
        let chunks: Vec<Chunk<'_>> = parts.iter().flat_map(|units| self.chunks(units)).collect();
        let (part, observed) = (Buffer::default(), Observed::default());
        let turn = Turn { taken: 0, added: 0, sum, empty: true, part, observed, counted: 0, failure: None };
        let shared = (Mutex::new(turn), Condvar::new());
        let others = self.threads.min(chunks.len()).saturating_sub(1);
        std::thread::scope(|scope| {
            for _ in 0..others {
                // Where the system has no more threads, the others do all the work.
                drop(std::thread::Builder::new().spawn_scoped(scope, || self.work(&chunks, &shared)));
            }
            self.work(&chunks, &shared);
        });
        let turn = shared.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        if turn.empty {
            turn.sum.fill(0);
        }
        turn.failure.map_or(Ok((turn.observed, turn.counted)), Err)
    }

    fn chunks<'u>(&self, units: &'u [u32]) -> impl Iterator<Item = Chunk<'u>> {
        let count = units.len().div_ceil(self.physical.clamp(*CHUNK.start(), *CHUNK.end()));
        let end = move |index: usize| index * units.len() / count;
        (0..count).map(move |index| Chunk {
            units: &units[end(index)..end(index + 1)],
            part: units.len(),
            first: index == 0,
            last: index + 1 == count,
        })
    }

    /// Takes chunks until there are none.
    fn work(&self, chunks: &[Chunk<'_>], shared: &(Mutex<Turn<'_>>, Condvar)) {
        let _abandoned = Abandoned(shared);
        let clipping = self.plan.clipping_to(self.bound);
        loop {
            let mut turn = lock(shared);
            let index = turn.taken;
            let Some(chunk) = chunks.get(index).filter(|_| turn.failure.is_none()) else { return };
            turn.taken += 1;
            drop(turn);
            let mut sum = Buffer::zeros(self.plan.weights());
            let seen = self.clipped(chunk, &clipping, &mut sum);
            let waiting = |turn: &mut Turn<'_>| turn.added < index && turn.failure.is_none();
            let mut turn = shared.1.wait_while(lock(shared), waiting).unwrap_or_else(PoisonError::into_inner);
            match seen.and_then(|seen| self.merge(chunk, seen, sum, &mut turn)) {
                Ok(()) => turn.added += 1,
                Err(error) => turn.failure = Some(turn.failure.take().unwrap_or(error)),
            }
            shared.1.notify_all();
        }
    }

    /// Adds the clipped gradients of a chunk to a sum, in batches that the model takes.
    fn clipped(&self, chunk: &Chunk<'_>, clipping: &Clipping, sum: &mut [f32]) -> Result<Observed, String> {
        let mut all = Observed::default();
        for units in chunk.units.chunks(self.physical.max(1)) {
            let batch = self.table.batch(units);
            let seen = self.model.add_clipped(&batch, clipping, sum).map_err(|error| error.to_string())?;
            if self.plan.adaptive().is_some() && seen.norms.len() != units.len() {
                return Err("the model does not tell the norms that adaptive clipping counts".into());
            }
            all.append(seen);
        }
        Ok(all)
    }

    /// Adds the sum of a chunk to its part, and that to the sum of the step when it is whole.
    fn merge(&self, chunk: &Chunk<'_>, seen: Observed, sum: Buffer, turn: &mut Turn<'_>) -> Result<(), String> {
        turn.counted += seen.norms.iter().map(|norm| counted(*norm, self.bound)).sum::<u64>();
        turn.observed.append(seen);
        match (chunk.first, chunk.last) {
            (true, true) => self.round([&sum], chunk, turn),
            (true, false) => {
                turn.part = sum;
                Ok(())
            }
            (false, false) => {
                add_to(&mut turn.part, &sum);
                Ok(())
            }
            (false, true) => {
                let part = std::mem::take(&mut turn.part);
                self.round([&part, &sum], chunk, turn)
            }
        }
    }

    fn round<const N: usize>(&self, part: [&[f32]; N], chunk: &Chunk<'_>, turn: &mut Turn<'_>) -> Result<(), String> {
        let empty = std::mem::replace(&mut turn.empty, false);
        let added = self.plan.lattice().add(part, (chunk.part, self.bound), turn.sum, empty);
        added.map_err(|_: GateError| "the model gave a sum that clipped gradients cannot have".into())
    }
}

/// Ends the work of all others if this thread panics, so that none waits for it.
struct Abandoned<'a, 'b>(&'a (Mutex<Turn<'b>>, Condvar));

impl Drop for Abandoned<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(self.0).failure = Some("a thread panicked".into());
            self.0.1.notify_all();
        }
    }
}

fn lock<'a, 'b>(shared: &'a (Mutex<Turn<'b>>, Condvar)) -> MutexGuard<'a, Turn<'b>> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}
