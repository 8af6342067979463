// Command render builds a kustomization and keeps what an API server must know
// before a manager can run outside of the cluster: custom resource definitions
// and webhook configurations, as one JSON list.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kept kinds, in the order in which they are applied.
var kept = map[string]int{
	"CustomResourceDefinition":       0,
	"MutatingWebhookConfiguration":   1,
	"ValidatingWebhookConfiguration": 1,
}

func main() {
	in := flag.String("in", "", "kustomization `directory` to build (required)")
	out := flag.String("out", "", "JSON `file` to write (required)")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "render -in DIR -out FILE builds a kustomization and writes its CRDs and webhook configurations as JSON.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *in == "" || *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	n, err := render(*in, *out)
	if err != nil {
		fmt.Fprintf(os.Stderr, "render: %s: %v\n", *in, err)
		os.Exit(1)
	}
	fmt.Printf("%s: %d objects\n", *out, n)
}

func render(in, out string) (int, error) {
	o := krusty.MakeDefaultOptions()
	o.LoadRestrictions = types.LoadRestrictionsNone // providers patch with files beside their base
	built, err := krusty.MakeKustomizer(o).Run(filesys.MakeFsOnDisk(), in)
	if err != nil {
		return 0, err
	}
	items := []map[string]any{}
	for _, r := range built.Resources() {
		if _, ok := kept[r.GetKind()]; !ok {
			continue
		}
		m, err := r.Map()
		if err != nil {
			return 0, fmt.Errorf("%s %s: %w", r.GetKind(), r.GetName(), err)
		}
		delete(m, "status")
		items = append(items, m)
	}
	if len(items) == 0 {
		return 0, fmt.Errorf("no custom resource definitions or webhook configurations in it")
	}
	sort.SliceStable(items, func(i, j int) bool { return rank(items[i]) < rank(items[j]) })
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}); err != nil {
		return 0, err
	}
	// Written beside and renamed: a reader never sees half a file.
	tmp := filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+".new")
	if err := os.WriteFile(tmp, text.Bytes(), 0o644); err != nil {
		return 0, err
	}
	return len(items), os.Rename(tmp, out)
}

func rank(m map[string]any) int {
	kind, _ := m["kind"].(string)
	return kept[kind]
}
