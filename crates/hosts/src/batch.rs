//! Calls of many machines that are made as one, where EC2 takes many ids at once.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws::errors::Error;
use tokio::sync::oneshot;

/// Ids that one call names.
const MOST: usize = 100;
/// Whoever is first waits this long for others.
const GATHER: Duration = Duration::from_millis(50);

/// What a call said, and how many took part in it.
#[derive(Clone, Debug)]
pub struct Together<V> {
    /// How many askers shared the call.
    pub askers: usize,
    /// The answer.
    pub answer: Result<V, Error>,
}

struct Waiting<I, V> {
    ids: Vec<I>,
    tell: oneshot::Sender<Together<V>>,
}

/// Those who wait to be asked for together.
pub struct Batch<I, V> {
    waiting: Mutex<Vec<Waiting<I, V>>>,
    line: tokio::sync::Mutex<()>,
}

impl<I, V> Default for Batch<I, V> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), line: tokio::sync::Mutex::default() }
    }
}

impl<I: Clone, V: Clone> Batch<I, V> {
    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting<I, V>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those who came first, as many as fit into one call.
    fn next(&self) -> (Vec<I>, Vec<oneshot::Sender<Together<V>>>) {
        let mut waiting = self.waiting();
        // Who gave up meanwhile is not asked for.
        waiting.retain(|one| !one.tell.is_closed());
        let (mut ids, mut count) = (0, 0);
        while let Some(one) = waiting.get(count) {
            ids += one.ids.len();
            if count > 0 && ids > MOST {
                break;
            }
            count += 1;
        }
        let taken: Vec<Waiting<I, V>> = waiting.drain(..count).collect();
        (taken.iter().flat_map(|one| one.ids.clone()).collect(), taken.into_iter().map(|one| one.tell).collect())
    }

    /// Asks for ids in one call with whoever else asks at the same time; none when whoever made the call for all was
    /// stopped, so that nobody knows what became of it.
    pub async fn join<F>(&self, ids: &[I], ask: impl Fn(Vec<I>) -> F) -> Option<Together<V>>
    where
        F: Future<Output = Result<V, Error>>,
    {
        let (tell, mut told) = oneshot::channel();
        self.waiting().push(Waiting { ids: ids.to_vec(), tell });
        let _turn = tokio::select! {
            biased;
            told = &mut told => return told.ok(),
            turn = self.line.lock() => turn,
        };
        tokio::time::sleep(GATHER).await;
        loop {
            match told.try_recv() {
                Ok(answer) => return Some(answer),
                Err(oneshot::error::TryRecvError::Closed) => return None,
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            let (ids, askers) = self.next();
            let answer = ask(ids).await;
            let together = Together { askers: askers.len(), answer };
            for asker in askers {
                // Who gave up meanwhile does not hear it.
                let _ = asker.send(together.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    type Calls = Arc<Mutex<Vec<Vec<u32>>>>;

    fn recorded(calls: &Calls) -> impl Fn(Vec<u32>) -> futures::future::BoxFuture<'static, Result<Vec<u32>, Error>> {
        let calls = Arc::clone(calls);
        move |ids| {
            calls.lock().unwrap().push(ids.clone());
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(ids)
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_at_the_same_time_share_a_call_and_each_hears_the_answer() {
        let (batch, calls) = (Arc::new(Batch::default()), Calls::default());
        let one = |n: u32| {
            let (batch, ask) = (Arc::clone(&batch), recorded(&calls));
            async move { batch.join(&[n], ask).await }
        };
        let told = futures::future::join_all((0..250).map(one)).await;
        for (n, told) in told.into_iter().enumerate() {
            let told = told.unwrap();
            assert!(told.answer.unwrap().contains(&u32::try_from(n).unwrap()) && told.askers > 1, "{n}");
        }
        let sizes: Vec<usize> = calls.lock().unwrap().iter().map(Vec::len).collect();
        assert_eq!(sizes, [100, 100, 50]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_asks_alone_is_asked_for_alone_however_many_ids() {
        let (batch, calls) = (Batch::default(), Calls::default());
        let many: Vec<u32> = (0..150).collect();
        let told = batch.join(&many, recorded(&calls)).await.unwrap();
        assert_eq!((told.askers, told.answer.unwrap().len()), (1, 150));
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_caller_for_all_is_stopped_the_others_are_told_that_nobody_knows() {
        let (batch, calls) = (Arc::new(Batch::default()), Calls::default());
        let first = {
            let (batch, ask) = (Arc::clone(&batch), recorded(&calls));
            async move { batch.join(&[1], ask).await }
        };
        let second = {
            let (batch, ask) = (Arc::clone(&batch), recorded(&calls));
            async move { batch.join(&[2], ask).await }
        };
        let stopped = tokio::time::timeout(Duration::from_millis(500), first);
        let (first, second) = futures::future::join(stopped, second).await;
        assert!(first.is_err() && second.is_none());
        assert_eq!(*calls.lock().unwrap(), [vec![1, 2]], "and nobody calls again by itself");
        assert!(batch.join(&[3], recorded(&calls)).await.is_some(), "the next one is served");
    }
}
