//! What a group on CloudStack offers, as far as the catalogue knows it, and who is sent to ask for the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloudstack::profile::Profile;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit::class::chain;
use kube::Api;

use super::cards::Card;
use super::{AcsWish, Gap, Site, entry, settle, shown};
use crate::cloud::{Way, Ways};
use crate::decide::Standing;
use crate::facts::{GroupFacts, GroupKey};
use crate::judge::Wish;
use crate::offer::Offer;
use crate::record::Record;
use crate::room::{Annotator, Error, TRIES, read};
use crate::shelf::{Errand, Found, Picture, Place, Refusal, System};
use crate::status::Trouble;

/// What is known of one site: an offer and when to look again, or why not.
type Seen = Result<(Offer, Option<Timestamp>), Standing>;

/// Who asks, and what for.
struct Question<'q> {
    key: &'q GroupKey,
    group: &'q GroupFacts,
    wish: &'q AcsWish,
    now: Timestamp,
}

fn stuck(trouble: Trouble) -> Standing {
    Standing::Stuck { trouble, again: None }
}

impl<C: Ways> Annotator<C> {
    /// What a machine offers wherever it may be made: the least of all its sites.
    pub(crate) async fn ask_acs(
        &self,
        key: &GroupKey,
        group: &GroupFacts,
        acs: &AcsWish,
        wish: &Wish,
        now: Timestamp,
    ) -> Result<Standing, Error> {
        let question = Question { key, group, wish: acs, now };
        let (mut offers, mut soonest) = (Vec::new(), None::<Timestamp>);
        for site in &acs.sites {
            match self.ask_site(&question, site).await? {
                Ok((offer, again)) => {
                    offers.push(offer);
                    soonest = soonest.into_iter().chain(again).min();
                }
                Err(standing) => return Ok(standing),
            }
        }
        Ok(match Offer::least(offers.iter()) {
            Some(offer) => Standing::Known { offer: Arc::new(offer), around: wish.around.clone(), again: soonest },
            None => Standing::Asking,
        })
    }

    async fn ask_site(&self, question: &Question<'_>, site: &Site) -> Result<Seen, Error> {
        // A Secret may say something else by the time it is read for a call; then another place is meant.
        for _ in 0..=TRIES {
            let card = match self.cards.get(&site.secret, self.clock.instant()) {
                Some(card) => card,
                None => match self.profile(question.key, site).await? {
                    Ok(profile) => Card::of(&profile),
                    Err(trouble) => return Ok(Err(stuck(trouble))),
                },
            };
            if let Some(seen) = self.ask_place(question, site, card).await? {
                return Ok(seen);
            }
        }
        Err(Error::Behind)
    }

    /// `None` when the Secret is not for this place any more.
    async fn ask_place(&self, question: &Question<'_>, site: &Site, card: Card) -> Result<Option<Seen>, Error> {
        let Question { key, group, wish, now } = *question;
        let (place, by) = (Place::Acs(site.place(card.clone())), format!("Secret {}", site.secret));
        let found = self.catalogue.find(&place, &entry(&wish.offering), key, &by);
        let image = match wish.image.is_empty() {
            true => System::Known { picture: Picture::default(), errand: None },
            false => self.catalogue.image(&place, &entry(&wish.image), key),
        };
        let (needed, useful): (Vec<Errand>, Vec<Errand>) = errands(&found, &image);
        if !needed.is_empty() || !useful.is_empty() {
            match self.profile(key, site).await {
                Ok(Ok(profile)) if Card::of(&profile) == card => {
                    let send = |errand: Errand, who: Option<&GroupKey>| {
                        self.catalogue.send(errand, Way::Acs(Box::new(profile.clone())), &by, who);
                    };
                    needed.iter().cloned().for_each(|errand| send(errand, Some(key)));
                    useful.into_iter().for_each(|errand| send(errand, None));
                }
                Ok(Ok(_)) => return Ok(None),
                Ok(Err(trouble)) if !needed.is_empty() => return Ok(Some(Err(stuck(trouble)))),
                Err(error) if !needed.is_empty() => return Err(error),
                // What is known goes on, so being without keys for something newer is nobody's trouble yet.
                Ok(Err(trouble)) => tracing::warn!(object = %key, error = trouble.message, "catalogue not refreshed"),
                Err(error) => tracing::warn!(object = %key, error = %chain(&error), "catalogue not refreshed"),
            }
        }
        let failed = |refusal: Refusal, again| {
            let trouble = match refusal.terminal {
                true => Trouble::refused(refusal.message),
                false => Trouble::passing(refusal.message),
            };
            Some(Err(Standing::Stuck { trouble, again: Some(self.wall(again, now)) }))
        };
        let (name, zone) = (shown(&wish.offering), shown(&site.zone));
        let (offer, again) = match found {
            Found::Known { offer, again, .. } => (offer, again.map(|at| self.wall(at, now))),
            Found::Unknown { near } => {
                let record = Record::parse(group.annotation(crate::names::APPLIED));
                let trouble = Trouble::unknown_offering(name, zone, &near, Some(&record.instance_type));
                return Ok(Some(Err(stuck(trouble))));
            }
            Found::Ask(_) | Found::Wait | Found::Recall => return Ok(Some(Err(Standing::Asking))),
            Found::Failed { refusal, again } => return Ok(failed(refusal, again)),
        };
        let picture = match image {
            System::Known { picture, .. } => picture,
            System::Ask(_) | System::Wait => return Ok(Some(Err(Standing::Asking))),
            System::Failed { refusal, again } => return Ok(failed(refusal, again)),
        };
        Ok(Some(match settle(&offer, wish.chosen, picture) {
            Ok(offer) => Ok((offer, again)),
            Err(Gap::Several) => Err(stuck(Trouble::several_offerings(name, zone))),
            Err(Gap::Unchosen(field)) => Err(stuck(Trouble::unchosen(name, field))),
            Err(Gap::Incomplete) => Err(stuck(Trouble::incomplete_offering(name, zone))),
        }))
    }

    /// The keys of a site, read now that they are needed; what may be remembered of them is.
    async fn profile(&self, key: &GroupKey, site: &Site) -> Result<Result<Profile, Trouble>, Error> {
        Ok(self.read_profile(site).await?.inspect_err(|trouble| self.lacks(key, "secret", trouble)))
    }

    async fn read_profile(&self, site: &Site) -> Result<Result<Profile, Trouble>, Error> {
        let secret = &site.secret;
        let api: Api<Secret> = Api::namespaced(self.writer.client().clone(), secret.namespace().unwrap_or_default());
        let found = api.get_opt(secret.name()).await;
        let Some(found) = found.map_err(read(|| format!("Secret {secret}")))? else {
            return Ok(Err(Trouble::missing(format!("Secret {secret} is not there"))));
        };
        let data: BTreeMap<String, Vec<u8>> =
            found.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
        Ok(match Profile::from_secret(&data, self.catalogue.policy()) {
            Ok(profile) => {
                self.cards.keep(secret, Card::of(&profile), self.clock.instant());
                Ok(profile)
            }
            Err(error) => Err(Trouble::refused(format!("Secret {secret}: {}", chain(&error)))),
        })
    }
}

/// What somebody must be sent for before anything can be said, and what would only be newer.
fn errands(found: &Found, image: &System) -> (Vec<Errand>, Vec<Errand>) {
    let (mut needed, mut useful) = (Vec::new(), Vec::new());
    match found {
        Found::Ask(errand) => needed.push(errand.clone()),
        Found::Known { errand, .. } => useful.extend(errand.clone()),
        Found::Unknown { .. } | Found::Recall | Found::Wait | Found::Failed { .. } => {}
    }
    match image {
        System::Ask(errand) => needed.push(errand.clone()),
        System::Known { errand, .. } => useful.extend(errand.clone()),
        System::Wait | System::Failed { .. } => {}
    }
    (needed, useful)
}
