//! Which names of fields, flags and variables say that a secret follows.

/// Words that make a name one of a secret wherever they stand in it.
const WORDS: [&str; 24] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "apikey",
    "accesskey",
    "privatekey",
    "keydata",
    "bearer",
    "authorization",
    "cookie",
    "signature",
    "userdata",
    "networkdata",
    "kubeconfig",
    "dockercfg",
    "dockerconfigjson",
    "cloudinit",
    "cloudconfig",
    "containerlinuxconfig",
    "prekubeadmcommands",
    "postkubeadmcommands",
];

/// Names that are a secret's only as a whole.
const WHOLE: [&str; 9] =
    ["key", "keys", "pass", "pwd", "sig", "stringdata", "binarydata", "bootcommands", "additionalconfig"];

/// Ends of names that say where a secret is, how long it lives or of what sort it is, and so hold none.
const HARMLESS: [&str; 27] = [
    "name",
    "names",
    "namespace",
    "ref",
    "refs",
    "reference",
    "references",
    "selector",
    "version",
    "type",
    "kind",
    "policy",
    "provider",
    "ttl",
    "seconds",
    "period",
    "duration",
    "expiry",
    "expiration",
    "timestamp",
    "algorithm",
    "count",
    "mode",
    "file",
    "path",
    "arn",
    "checksum",
];

/// Letters and digits of the last part of a name, in lower case: `X-Amz-Signature`, `api_key` and `apiKey` are alike.
fn folded(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or_default();
    last.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether what carries this name may be a secret. In doubt it is.
pub fn looks_secret(name: &str) -> bool {
    let name = folded(name);
    if WHOLE.contains(&name.as_str()) {
        return true;
    }
    if HARMLESS.iter().any(|end| name.ends_with(end)) {
        return false;
    }
    let public = name.contains("publickey");
    let key = (name.ends_with("key") || name.ends_with("keys")) && !public;
    let pass = name.ends_with("pwd") || name.ends_with("pass");
    key || pass || WORDS.iter().any(|word| name.contains(word))
}

/// Whether the field `key` of an object names a key, of a label, a taint or a Secret, and is none.
pub fn names_a_key<'a>(mut siblings: impl Iterator<Item = &'a str>) -> bool {
    siblings.any(|name| ["operator", "effect", "name", "value", "values", "path", "optional"].contains(&name))
}

/// Whether a field of this name belongs to a reference: it says where something is.
pub fn refers(name: &str) -> bool {
    let whole = ["key", "apiVersion", "apiGroup", "uid", "optional", "items", "expirationSeconds", "audience", "group"];
    let ends = ["name", "namespace", "kind", "ref", "version", "path", "mode"];
    let folded = folded(name);
    whole.contains(&name) || ends.iter().any(|end| folded.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_however_they_are_spelled() {
        for name in [
            "password",
            "rootPasswd",
            "DB_PASSWORD",
            "api_key",
            "apiKey",
            "X-Amz-Signature",
            "secret-key",
            "token",
            "bootstrapToken",
            "userData",
            "networkData",
            "client-key-data",
            "AWS_ACCESS_KEY_ID",
            "aws_secret_access_key",
            "Authorization",
            "kubeconfig",
            "sshAuthorizedKeys",
            "example.com/token",
            "stringData",
            "key",
            "credentials",
            "PGPASS",
            "preKubeadmCommands",
            "sig",
        ] {
            assert!(looks_secret(name), "{name}");
        }
    }

    #[test]
    fn names_that_say_where_a_secret_is_stay() {
        for name in [
            "secretName",
            "credentialsName",
            "secretRef",
            "tokenTTLSeconds",
            "passwordPolicy",
            "sshKeyName",
            "publicKey",
            "name",
            "namespace",
            "spec",
            "metadata",
            "hosts.berth.dev/allocation",
            "keyAlgorithm",
            "tokenFile",
            "monitor",
            "caBundle",
            "providerID",
            "dataSecretName",
            "passwordFrom/secretRef",
            "metaData",
        ] {
            assert!(!looks_secret(name), "{name}");
        }
    }
}
