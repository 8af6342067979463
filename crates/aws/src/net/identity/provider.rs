//! Keeping credentials: one lock, one renewal at a time, old ones as long as they hold.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use api::names::AccountId;
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kit::clock::Clock;
use kit::secret::Secret;
use tokio::io::AsyncReadExt;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Container, Machine};
use crate::credentials::{CredentialsError, Files, Role, Source, WebIdentity, Why};
use crate::net::call::Caller;
use crate::net::sts;
use crate::port::{AssumeRole, AssumeRoleWithWebIdentity, Credentials, Keys};

/// New credentials are fetched this long before the old ones end.
const EARLY: SignedDuration = SignedDuration::from_mins(5);

/// Credentials that a source gives shortly before their end are asked for again no sooner than this.
const AT_MOST_EVERY: Duration = Duration::from_secs(60);

/// A source that failed is left alone this long, so that a hundred waiting calls make one question.
const REST: Duration = Duration::from_secs(5);

/// The largest token file that is read.
const TOKEN: u64 = 64 * 1024;

/// More of a shared file is not read; the parser refuses less.
const FILE: u64 = 1 << 20;

/// How a source is asked.
pub(crate) enum How {
    /// Keys that stay.
    Keys(Keys),
    /// A token from a file, shown to STS.
    WebIdentity { identity: WebIdentity, sts: Box<Caller> },
    /// A role, with an STS that is called by somebody else's credentials.
    Role { role: Box<Role>, sts: Box<Caller> },
    /// A container platform.
    Container(Container),
    /// The machine.
    Machine(Machine),
    /// What a test says, in turn.
    #[cfg(test)]
    Script(std::sync::Mutex<std::collections::VecDeque<Result<Credentials, CredentialsError>>>),
}

/// Keys to sign with, and whose request limits they use up.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) keys: Keys,
    /// The account, or what stands for it where nobody told us.
    pub(crate) owner: String,
}

/// A source of credentials that remembers what it was given.
pub struct Provider {
    source: Source,
    how: How,
    clock: Clock,
    state: Mutex<State>,
    account: OnceLock<AccountId>,
}

#[derive(Default)]
struct State {
    kept: Option<Credentials>,
    /// Not before this is the source asked again while what is kept still holds.
    again: Option<Instant>,
    failed: Option<CredentialsError>,
}

impl Provider {
    pub(crate) fn new(source: Source, how: How, clock: Clock) -> Self {
        Self { source, how, clock, state: Mutex::default(), account: OnceLock::new() }
    }

    /// Where the credentials come from.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Credentials that hold for at least some minutes more, fetched if need be.
    pub(crate) async fn get(&self) -> Result<Given, CredentialsError> {
        if let How::Keys(keys) = &self.how {
            let owner = self.account.get().map_or_else(|| keys.id.clone(), ToString::to_string);
            return Ok(Given { keys: keys.clone(), owner });
        }
        let mut state = self.state.lock().await;
        let (now, instant) = (self.clock.now(), self.clock.instant());
        let holds = |kept: &&Credentials| kept.expires.is_none_or(|end| now < end);
        let fresh = |kept: &Credentials| kept.expires.is_none_or(|end| now < before(end));
        let resting = state.again.is_some_and(|again| instant < again);
        if let Some(kept) = state.kept.as_ref().filter(holds)
            && (resting || fresh(kept))
        {
            return Ok(self.given(kept));
        }
        if resting && let Some(error) = &state.failed {
            return Err(error.clone());
        }
        let fetched = self.fetch().await;
        let (now, instant) = (self.clock.now(), self.clock.instant());
        match fetched {
            Ok(credentials) if credentials.expires.is_some_and(|end| end <= now) => {
                state.again = Some(instant + REST);
                let error = CredentialsError::Ended { source_name: self.source.describe() };
                state.failed = Some(error.clone());
                Err(error)
            }
            Ok(credentials) => {
                let given = self.given(&credentials);
                *state = State { kept: Some(credentials), again: Some(instant + AT_MOST_EVERY), failed: None };
                Ok(given)
            }
            Err(error) => {
                state.again = Some(instant + REST);
                state.failed = Some(error.clone());
                // What is kept still holds for a few minutes: a short outage of the source harms nobody.
                match state.kept.as_ref().filter(|kept| kept.expires.is_none_or(|end| now < end)) {
                    Some(kept) => {
                        tracing::warn!(error = kit::class::chain(&error), "cannot renew AWS credentials");
                        Ok(self.given(kept))
                    }
                    None => Err(error),
                }
            }
        }
    }

    /// STS said whose these credentials are: from now on they share the request limits of their account.
    pub(crate) fn learn(&self, account: &AccountId) {
        self.account.get_or_init(|| account.clone());
    }

    /// The service does not accept these keys any more; gives whether there may be others.
    pub(crate) async fn forget(&self, used: &Keys) -> bool {
        if matches!(self.how, How::Keys(_)) {
            return false;
        }
        let mut state = self.state.lock().await;
        // Somebody else may have renewed them meanwhile.
        if state.kept.as_ref().is_none_or(|kept| kept.keys.id != used.id) {
            return true;
        }
        // Asking again right after an answer gives the same answer.
        if state.again.is_some_and(|again| self.clock.instant() < again) {
            return false;
        }
        *state = State::default();
        true
    }

    fn given(&self, credentials: &Credentials) -> Given {
        let account = credentials.account.as_ref().or(self.source.account()).or(self.account.get());
        // Keys of a session change every hour; the source does not.
        let owner = account.map_or_else(|| self.source.describe(), ToString::to_string);
        Given { keys: credentials.keys.clone(), owner }
    }

    /// Asks the source. Boxed, because a role's source is asked in the same way.
    fn fetch(&self) -> BoxFuture<'_, Result<Credentials, CredentialsError>> {
        async move {
            match &self.how {
                How::Keys(keys) => Ok(Credentials { keys: keys.clone(), expires: None, account: None }),
                How::WebIdentity { identity, sts } => {
                    let request = AssumeRoleWithWebIdentity {
                        role: identity.role.clone(),
                        session_name: session_name(identity.session_name.as_deref()),
                        token: read_token(&identity.token_file).await?,
                        duration_seconds: None,
                    };
                    let given = sts::assume_role_with_web_identity(sts, &request).await;
                    given.map_err(|error| refused(request.role.as_str(), error))
                }
                How::Role { role, sts } => {
                    let request = AssumeRole {
                        role: role.role.clone(),
                        session_name: session_name(role.session_name.as_deref()),
                        duration_seconds: role.duration_seconds,
                        external_id: role.external_id.clone(),
                        inline_policy: role.inline_policy.clone(),
                        policy_arns: role.policy_arns.clone(),
                    };
                    let given = sts::assume_role(sts, &request).await;
                    given.map_err(|error| refused(request.role.as_str(), error))
                }
                How::Container(container) => container.fetch().await,
                How::Machine(machine) => machine.fetch().await,
                #[cfg(test)]
                How::Script(turns) => {
                    tokio::task::yield_now().await;
                    turns.lock().unwrap().pop_front().expect("the source was asked too often")
                }
            }
        }
        .boxed()
    }
}

fn before(end: Timestamp) -> Timestamp {
    end.saturating_sub(EARLY).unwrap_or(end)
}

fn refused(role: &str, error: crate::errors::Error) -> CredentialsError {
    CredentialsError::Role { role: role.to_owned(), source: Box::new(error) }
}

/// A name the account's log shows; STS takes 2 to 64 of these characters.
fn session_name(wanted: Option<&str>) -> String {
    let fit = |c: &char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(*c);
    let name: String = wanted.unwrap_or_default().chars().filter(fit).take(64).collect();
    if name.len() < 2 { api::names::PRODUCT.to_owned() } else { name }
}

/// Reads the shared files of the process's own credentials, as far as they exist.
///
/// # Errors
/// When a file exists but cannot be read, or is larger than any such file.
pub async fn shared_files(vars: &BTreeMap<String, String>) -> std::io::Result<Files> {
    let file = async |variable: &str, name: &str| -> std::io::Result<Option<Secret<String>>> {
        let home = || vars.get("HOME").map(|home| format!("{home}/.aws/{name}"));
        let given = vars.get(variable).filter(|path| !path.is_empty()).cloned();
        let Some(path) = given.or_else(home) else { return Ok(None) };
        let opened = match tokio::fs::File::open(path).await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut text = String::new();
        opened.take(FILE).read_to_string(&mut text).await?;
        Ok(Some(Secret::new(text)))
    };
    let config = file("AWS_CONFIG_FILE", "config").await?;
    Ok(Files { config, credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials").await? })
}

/// Reads a token that somebody keeps fresh in a file.
pub(super) async fn read_token(path: &Path) -> Result<Secret<String>, CredentialsError> {
    let shown = path.display().to_string();
    let failed = |error: std::io::Error| CredentialsError::ReadToken { path: shown.clone(), source: Why::new(error) };
    let bad = |rule| CredentialsError::BadToken { path: shown.clone(), rule };
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut text = String::new();
    file.take(TOKEN + 1).read_to_string(&mut text).await.map_err(failed)?;
    let token = text.trim();
    if u64::try_from(text.len()).is_ok_and(|size| size > TOKEN) {
        return Err(bad("is larger than any token"));
    }
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(bad("does not hold a token"));
    }
    Ok(Secret::new(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;
    use crate::errors::Kind;

    fn provider(clock: &Clock, turns: impl IntoIterator<Item = Result<Credentials, CredentialsError>>) -> Provider {
        let source = Source::InstanceMetadata { endpoint: String::new() };
        Provider::new(source, How::Script(std::sync::Mutex::new(turns.into_iter().collect())), clock.clone())
    }

    fn given(clock: &Clock, id: &str, minutes: i64) -> Result<Credentials, CredentialsError> {
        let keys = Keys { id: id.to_owned(), secret: "x".to_owned().into(), session: None };
        Ok(Credentials { keys, expires: Some(clock.now() + SignedDuration::from_mins(minutes)), account: None })
    }

    fn failed() -> Result<Credentials, CredentialsError> {
        Err(CredentialsError::Denied { place: "the test", status: 500 })
    }

    async fn id(provider: &Provider) -> String {
        provider.get().await.map_or_else(|error| error.to_string(), |given| given.keys.id)
    }

    async fn pass(minutes: u64) {
        tokio::time::advance(Duration::from_secs(60 * minutes)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_are_kept_until_five_minutes_before_their_end() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let provider = provider(&clock, [given(&clock, "one", 60), given(&clock, "two", 120)]);
        let all = join_all((0..100).map(|_| id(&provider))).await;
        assert!(all.iter().all(|id| id == "one"), "{all:?}");
        pass(54).await;
        assert_eq!(id(&provider).await, "one");
        pass(1).await;
        assert_eq!(id(&provider).await, "two");
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_of_the_source_harms_nobody_while_the_old_ones_hold() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let turns = [given(&clock, "one", 60), failed(), failed(), given(&clock, "two", 120)];
        let provider = provider(&clock, turns);
        assert_eq!(id(&provider).await, "one");
        pass(56).await;
        assert_eq!((id(&provider).await, id(&provider).await), ("one".to_owned(), "one".to_owned()), "one question");
        pass(5).await;
        let shown = id(&provider).await;
        assert_eq!(shown, "the test answered with HTTP status 500");
        assert_eq!(id(&provider).await, shown, "the source is left alone for a moment");
        tokio::time::advance(REST).await;
        assert_eq!(id(&provider).await, "two");
    }

    #[tokio::test(start_paused = true)]
    async fn short_terms_are_used_and_not_asked_for_all_the_time() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let provider = provider(&clock, [given(&clock, "one", 3), given(&clock, "two", 60), given(&clock, "past", 0)]);
        assert_eq!((id(&provider).await, id(&provider).await), ("one".to_owned(), "one".to_owned()));
        pass(1).await;
        assert_eq!(id(&provider).await, "two");
        pass(61).await;
        let ended = provider.get().await.unwrap_err();
        assert_eq!((ended.kind(), ended.to_string().contains("have ended")), (Kind::Permission, true));
    }

    #[tokio::test(start_paused = true)]
    async fn refused_keys_are_renewed_unless_they_are_new() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let provider = provider(&clock, [given(&clock, "one", 60), given(&clock, "two", 60)]);
        let one = provider.get().await.unwrap().keys;
        assert!(!provider.forget(&one).await, "asking again at once gives the same answer");
        pass(2).await;
        assert!(provider.forget(&one).await);
        assert_eq!(id(&provider).await, "two");
        assert!(provider.forget(&one).await, "somebody else has renewed them");
        assert_eq!(id(&provider).await, "two");
        let fixed = Provider::new(Source::Keys(one.clone()), How::Keys(one.clone()), clock);
        assert!(!fixed.forget(&one).await, "keys that stay cannot be renewed");
        assert_eq!(fixed.get().await.unwrap().owner, "one");
        fixed.learn(&"123456789012".parse().unwrap());
        assert_eq!(fixed.get().await.unwrap().owner, "123456789012", "limits are those of the account");
    }

    #[test]
    fn a_session_name_is_one_that_sts_takes() {
        for (wanted, name) in [(None, "berth"), (Some("a"), "berth"), (Some("a b/c"), "abc"), (Some("x@y"), "x@y")] {
            assert_eq!(session_name(wanted), name);
        }
        assert_eq!(session_name(Some(&"x".repeat(99))).len(), 64);
    }
}
