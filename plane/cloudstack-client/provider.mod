module berth.dev/plane/cloudstack-client

go 1.26

require github.com/apache/cloudstack-go/v2 v2.17.1

require go.uber.org/mock v0.5.0 // indirect
