//! Long lists and shared questions.

use aws::errors::{Cause, Kind, PagingError};
use aws::port::{Ec2, HostQuery, InstanceQuery, TypeQuery};
use futures::future::join_all;

use crate::support::{client, ok, refused, serve};

fn types(names: std::ops::Range<u32>, token: &str) -> axum::response::Response {
    let items: String = names.map(|n| format!("<item><instanceType>m{n}.large</instanceType></item>")).collect();
    ok("DescribeInstanceTypes", &format!("<instanceTypeSet>{items}</instanceTypeSet>{token}"))
}

#[tokio::test]
async fn all_pages_are_read_until_the_token_is_missing_or_empty() {
    for last in ["", "<nextToken/>", "<nextToken></nextToken>"] {
        let fake = serve(move |asked, before| {
            assert_eq!(asked.get("MaxResults"), "100");
            assert_eq!(asked.get("NextToken"), ["", "a+b/=", "c"][before]);
            match before {
                0 => types(0..100, "<nextToken>a+b/=</nextToken>"),
                1 => types(100..100, "<nextToken>c</nextToken>"),
                _ => types(100..150, last),
            }
        })
        .await;
        let found = client(&fake).ec2().describe_instance_types(&TypeQuery::All).await.unwrap();
        assert_eq!((found.types.len(), found.nameless, fake.asked().len()), (150, 0, 3));
    }
}

#[tokio::test]
async fn a_large_answer_is_read_whole() {
    let fake = serve(|_, _| types(0..8000, "")).await;
    let found = client(&fake).ec2().describe_instance_types(&TypeQuery::All).await.unwrap();
    assert_eq!(found.types.len(), 8000);
}

#[tokio::test]
async fn a_list_in_a_circle_is_an_error() {
    let fake =
        serve(|_, before| types(0..1, ["<nextToken>a</nextToken>", "<nextToken>b</nextToken>"][before % 2])).await;
    let error = client(&fake).ec2().describe_instance_types(&TypeQuery::All).await.unwrap_err();
    assert_eq!((error.cause(), error.kind()), (&Cause::Paging(PagingError::Loop), Kind::Malformed));
    assert_eq!(fake.asked().len(), 3);
}

#[tokio::test]
async fn a_list_without_end_is_an_error() {
    let fake = serve(|_, before| types(0..1, &format!("<nextToken>{before}</nextToken>"))).await;
    let error = client(&fake).ec2().describe_instance_types(&TypeQuery::All).await.unwrap_err();
    assert_eq!(error.cause(), &Cause::Paging(PagingError::TooLong { limit: 200 }));
    assert_eq!(fake.asked().len(), 200);
}

#[tokio::test]
async fn an_error_on_any_page_is_an_error_of_the_list() {
    let fake = serve(|_, before| match before {
        0 => types(0..5, "<nextToken>a</nextToken>"),
        _ => refused(403, "UnauthorizedOperation", "no"),
    })
    .await;
    let error = client(&fake).ec2().describe_instance_types(&TypeQuery::All).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Permission);
}

#[tokio::test]
async fn ids_and_page_sizes_are_never_sent_together() {
    let fake = serve(|asked, _| {
        let operation = asked.get("Action").to_owned();
        ok(&operation, "")
    })
    .await;
    let client = client(&fake);
    let ec2 = client.ec2();
    ec2.describe_hosts(&HostQuery::Ids(vec!["h-01234567".parse().unwrap()])).await.unwrap();
    ec2.describe_hosts(&HostQuery::by_tag_key("k")).await.unwrap();
    ec2.describe_hosts(&HostQuery::by_token(&"t".parse().unwrap())).await.unwrap();
    ec2.describe_instances(&InstanceQuery::Ids(vec!["i-01234567".parse().unwrap()])).await.unwrap();
    ec2.describe_instances(&InstanceQuery::by_tag("k", "v")).await.unwrap();
    ec2.describe_instance_types(&TypeQuery::Names(vec!["m5.large".parse().unwrap()])).await.unwrap();
    for asked in fake.asked() {
        let ids = asked.form.keys().any(|key| key.starts_with("HostId.") || key.starts_with("Instance"));
        assert_ne!(ids, asked.form.contains_key("MaxResults"), "{asked:?}");
    }
    let asked = &fake.asked()[4];
    assert_eq!((asked.get("Filter.1.Name"), asked.get("Filter.1.Value.1")), ("tag:k", "v"));
}

#[tokio::test]
async fn two_hundred_names_are_asked_for_in_two_requests() {
    let fake = serve(|_, _| types(0..0, "")).await;
    let names = (0..200).map(|n| format!("m{n}.large").parse().unwrap()).collect();
    client(&fake).ec2().describe_instance_types(&TypeQuery::Names(names)).await.unwrap();
    let asked = fake.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|asked| asked.form.contains_key("InstanceType.100")));
}

#[tokio::test]
async fn a_hundred_who_ask_for_the_catalogue_cause_one_listing() {
    let fake = serve(|_, before| match before {
        0 => types(0..100, "<nextToken>a</nextToken>"),
        _ => types(100..120, ""),
    })
    .await;
    let client = client(&fake);
    let all = join_all((0..100).map(|_| client.ec2().describe_instance_types(&TypeQuery::All))).await;
    assert!(all.iter().all(|list| list.as_ref().unwrap().types.len() == 120));
    assert_eq!(fake.asked().len(), 2);
}
