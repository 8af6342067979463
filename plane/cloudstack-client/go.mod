module berth.dev/plane/cloudstack-client

go 1.26

require github.com/apache/cloudstack-go/v2 v2.19.0

require go.uber.org/mock v0.5.0 // indirect
