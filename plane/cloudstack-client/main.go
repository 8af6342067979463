// Command cloudstack drives the CloudStack simulator with Apache's own client module and holds its commands and answers
// against the catalogue that the module carries. CLOUDSTACK_ENDPOINT, CLOUDSTACK_KEY and CLOUDSTACK_SECRET say where it
// is; -catalogue is the module's listApis.json, -commands the simulator's own list of commands.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/apache/cloudstack-go/v2/cloudstack"
)

var checks int

func check(what string, holds bool) {
	checks++
	if !holds {
		fmt.Fprintf(os.Stderr, "cloudstack: failed: %s\n", what)
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintf(os.Stderr, "cloudstack: %v\n", err)
		os.Exit(1)
	}
	return value
}

type parameter struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
}

type field struct {
	Name     string  `json:"name"`
	Response []field `json:"response"`
}

type command struct {
	Name     string      `json:"name"`
	IsAsync  bool        `json:"isasync"`
	Params   []parameter `json:"params"`
	Response []field     `json:"response"`
}

// published reads the catalogue of the module.
func published(path string) map[string]command {
	var whole struct {
		API []command `json:"api"`
	}
	check("the catalogue is JSON", json.Unmarshal(must(os.ReadFile(path)), &whole) == nil)
	found := map[string]command{}
	for _, one := range whole.API {
		found[one.Name] = one
	}
	return found
}

// line writes a command as the simulator's list has it.
func line(one command) string {
	words := []string{}
	for _, p := range one.Params {
		word := p.Name + ":" + p.Type
		if p.Required {
			word += "!"
		}
		words = append(words, word)
	}
	sort.Strings(words)
	kind := "sync"
	if one.IsAsync {
		kind = "async"
	}
	return strings.Join(append([]string{one.Name, kind}, words...), " ")
}

// catalogue compares the simulator's list of commands with the published one, word for word.
func catalogue(known map[string]command, path string) {
	for _, text := range strings.Split(strings.TrimSpace(string(must(os.ReadFile(path)))), "\n") {
		if strings.HasPrefix(text, "#") {
			continue
		}
		words := strings.Split(text, " ")
		one, ok := known[words[0]]
		check(words[0]+" is published", ok)
		sort.Strings(words[2:])
		check(fmt.Sprintf("%s\n  ours      %s\n  published %s", words[0], strings.Join(words, " "), line(one)),
			strings.Join(words, " ") == line(one))
	}
}

// unpublished are fields that a real server of 4.20 sends although its catalogue does not list them there.
var unpublished = map[string]bool{"count": true, "jobid": true, "id": true, "success": true}

// strangers names the fields of an answer that the catalogue does not know.
func strangers(value any, fields []field, path string) []string {
	found := []string{}
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			found = append(found, strangers(one, fields, path)...)
		}
	case map[string]any:
		if len(fields) == 0 {
			return found
		}
		for name, inner := range value {
			at, known := 0, false
			for i, f := range fields {
				if strings.EqualFold(f.Name, name) {
					at, known = i, true
				}
			}
			if !known {
				found = append(found, path+"/"+name)
			} else {
				found = append(found, strangers(inner, fields[at].Response, path+"/"+name)...)
			}
		}
	}
	return found
}

// watch looks at every answer on its way to the client.
type watch struct {
	known map[string]command
	seen  map[string]bool
}

func (w *watch) RoundTrip(request *http.Request) (*http.Response, error) {
	name := request.URL.Query().Get("command")
	if name == "" && request.GetBody != nil {
		body, err := request.GetBody()
		if err == nil {
			text, _ := io.ReadAll(body)
			for _, pair := range strings.Split(string(text), "&") {
				if after, ok := strings.CutPrefix(pair, "command="); ok {
					name = after
				}
			}
		}
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil || response.StatusCode != 200 {
		return response, err
	}
	text := must(io.ReadAll(response.Body))
	response.Body = io.NopCloser(strings.NewReader(string(text)))
	var whole map[string]map[string]any
	check(name+" answers an object", json.Unmarshal(text, &whole) == nil && len(whole) == 1)
	for _, said := range whole {
		fields := w.known[name].Response
		for noun, inner := range said {
			if name == "queryAsyncJobResult" || unpublished[noun] {
				continue
			}
			unknown := strangers(inner, fields, name)
			check(fmt.Sprintf("%s: unknown fields %v", name, unknown), len(unknown) == 0)
		}
	}
	w.seen[name] = true
	return response, err
}

func refused(err error, code string) bool {
	return err != nil && strings.Contains(err.Error(), "CloudStack API error "+code)
}

func life(cs *cloudstack.CloudStackClient) {
	zone, count, err := cs.Zone.GetZoneID("zone-1")
	check("a zone by name", err == nil && count == 1)
	_, count, err = cs.Zone.GetZoneByID("00000000-0000-0000-0000-000000000000")
	check("an unknown zone", err != nil && count <= 0)
	template, _, err := cs.Template.GetTemplateID("kube-1.31", "executable", zone)
	check("a template by name", err == nil && template != "")
	offering, _, err := cs.ServiceOffering.GetServiceOfferingID("Medium Instance")
	check("an offering by name", err == nil && offering != "")
	disk, _, err := cs.DiskOffering.GetDiskOfferingID("Custom")
	check("a disk offering by name", err == nil && disk != "")
	networks := cs.Network.NewListNetworksParams()
	networks.SetZoneid(zone)
	networks.SetKeyword("shared")
	network := must(cs.Network.ListNetworks(networks)).Networks[0]
	check("a network by keyword", network.Name == "shared" && network.Type == "Shared")
	domains := cs.Domain.NewListDomainsParams()
	domains.SetListall(true)
	domains.SetName("tenant")
	check("a domain", must(cs.Domain.ListDomains(domains)).Domains[0].Path == "ROOT/tenant")
	accounts := cs.Account.NewListAccountsParams()
	accounts.SetListall(true)
	check("accounts", must(cs.Account.ListAccounts(accounts)).Count == 4)
	check("users", must(cs.User.ListUsers(cs.User.NewListUsersParams())).Count == 1)

	group := must(cs.AffinityGroup.CreateAffinityGroup(cs.AffinityGroup.NewCreateAffinityGroupParams("apart", "host anti-affinity")))
	check("a group", group.Name == "apart")

	deploy := cs.VirtualMachine.NewDeployVirtualMachineParams(offering, template, zone)
	deploy.SetName("vm-1")
	// Not "~": Go leaves it as it is before it signs, and a server does not.
	deploy.SetDisplayname("A machine (1) *+é&=")
	deploy.SetNetworkids([]string{network.Id})
	deploy.SetAffinitygroupids([]string{group.Id})
	deploy.SetDiskofferingid(disk)
	deploy.SetSize(7)
	deploy.SetUserdata("I2Nsb3VkLWNvbmZpZwo=")
	made := must(cs.VirtualMachine.DeployVirtualMachine(deploy))
	check("a machine runs", made.State == "Running" && made.Displayname == "A machine (1) *+é&=" && made.Nic[0].Ipaddress != "")
	_, err = cs.VirtualMachine.DeployVirtualMachine(deploy)
	check(fmt.Sprintf("a name is taken once: %v", err), refused(err, "431 (CSExceptionErrorCode: 4350)"))

	tags := cs.Resourcetags.NewCreateTagsParams([]string{made.Id}, "UserVm", map[string]string{"claim-uid": "a b", "x": "y"})
	must(cs.Resourcetags.CreateTags(tags))
	list := cs.VirtualMachine.NewListVirtualMachinesParams()
	list.SetTags(map[string]string{"claim-uid": "a b"})
	found := must(cs.VirtualMachine.ListVirtualMachines(list))
	check("a machine by its tag", found.Count == 1 && len(found.VirtualMachines[0].Tags) == 2)
	listed := must(cs.Resourcetags.ListTags(cs.Resourcetags.NewListTagsParams()))
	check("tags", listed.Count == 2)
	must(cs.Resourcetags.DeleteTags(cs.Resourcetags.NewDeleteTagsParams([]string{made.Id}, "UserVm")))
	check("no tags", must(cs.Resourcetags.ListTags(cs.Resourcetags.NewListTagsParams())).Count == 0)

	stopped := must(cs.VirtualMachine.StopVirtualMachine(cs.VirtualMachine.NewStopVirtualMachineParams(made.Id)))
	check("a machine stops", stopped.State == "Stopped")
	started := must(cs.VirtualMachine.StartVirtualMachine(cs.VirtualMachine.NewStartVirtualMachineParams(made.Id)))
	check("a machine starts", started.State == "Running")
	must(cs.VirtualMachine.RebootVirtualMachine(cs.VirtualMachine.NewRebootVirtualMachineParams(made.Id)))
	destroy := cs.VirtualMachine.NewDestroyVirtualMachineParams(made.Id)
	destroy.SetExpunge(true)
	must(cs.VirtualMachine.DestroyVirtualMachine(destroy))
	_, err = cs.VirtualMachine.DestroyVirtualMachine(destroy)
	check(fmt.Sprintf("a machine is gone: %v", err), refused(err, "431 (CSExceptionErrorCode: 4350)"))
	deletion := cs.AffinityGroup.NewDeleteAffinityGroupParams()
	deletion.SetId(group.Id)
	must(cs.AffinityGroup.DeleteAffinityGroup(deletion))
	groups := must(cs.AffinityGroup.ListAffinityGroups(cs.AffinityGroup.NewListAffinityGroupsParams()))
	check("no group", groups.Count == 0)
}

func main() {
	list := flag.String("catalogue", "", "listApis.json of the client module")
	commands := flag.String("commands", "", "the simulator's list of commands; compared when given")
	flag.Parse()
	known := published(*list)
	if *commands != "" {
		catalogue(known, *commands)
	}
	endpoint, key, secret := os.Getenv("CLOUDSTACK_ENDPOINT"), os.Getenv("CLOUDSTACK_KEY"), os.Getenv("CLOUDSTACK_SECRET")
	w := &watch{known: known, seen: map[string]bool{}}
	client := &http.Client{Transport: w, Timeout: 30 * time.Second}
	cs := cloudstack.NewAsyncClient(endpoint, key, secret, true, cloudstack.WithHTTPClient(client))
	life(cs)
	wrong := cloudstack.NewAsyncClient(endpoint, key, "wrong", true)
	_, err := wrong.Zone.ListZones(wrong.Zone.NewListZonesParams())
	check(fmt.Sprintf("a wrong secret: %v", err), refused(err, "401"))
	names := []string{}
	for name := range w.seen {
		names = append(names, name)
	}
	sort.Strings(names)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintf(out, "cloudstack: Apache's Go client and the simulator agree, %d checks, %d commands: %s\n", checks, len(names), strings.Join(names, " "))
}
