//! Templates of machines on EC2.

use api::views::{AWSMachineTemplate, TemplateStatus};
use kit::feed::Project;

/// A template, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The instance type.
    pub instance_type: Option<Box<str>>,
    /// The size of the root disk in GiB.
    pub root_gib: Option<u64>,
    /// The image, where it is given by its id.
    pub image: Option<Box<str>>,
    /// What the template says about its nodes.
    pub status: TemplateStatus,
}

/// Templates of machines on EC2.
pub struct Templates;

impl Project for Templates {
    type Source = AWSMachineTemplate;
    type Slim = TemplateFacts;

    fn slim(source: AWSMachineTemplate) -> TemplateFacts {
        TemplateFacts {
            uid: source.metadata.uid.unwrap_or_default().into(),
            instance_type: source.spec.instance_type.map(|text| text.trim().into()),
            root_gib: source.spec.root_volume_gib.and_then(|size| u64::try_from(size).ok()).filter(|size| *size > 0),
            image: source.spec.image.map(Into::into),
            status: source.status,
        }
    }
}
