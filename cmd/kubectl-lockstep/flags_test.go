package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	kcheck "github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/check"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestAnswersArePrintedAsObjects(t *testing.T) {
	for f, read := range map[format]func([]byte, any) error{
		formatJSON: json.Unmarshal,
		formatYAML: func(raw []byte, into any) error { return yaml.UnmarshalStrict(raw, into) },
	} {
		var out bytes.Buffer
		check.Equal(t, "error", nil, f.print(&out, twoFindings, nil))
		again := kcheck.Report{}
		check.Equal(t, "error", nil, read(out.Bytes(), &again))
		check.Equal(t, string(f), twoFindings, again)
		if is := strings.HasPrefix(out.String(), "{"); is != (f == formatJSON) {
			t.Errorf("%s is printed as\n%s", f, &out)
		}
	}
}

func TestAFlagThatIsNotThereIsExplained(t *testing.T) {
	for args, want := range map[string]string{
		"submit llama --worker=4":                   "unknown flag: --worker\nSee 'kubectl lockstep submit --help' for usage",
		"submit llama --nodes=4":                    "unknown flag: --nodes\nSee 'kubectl lockstep submit --help' for usage",
		"submit llama --gpu=4":                      "unknown flag: --gpu\nSee 'kubectl lockstep submit --help' for usage",
		"restart llama --pod=x":                     "unknown flag: --pod\nSee 'kubectl lockstep restart --help' for usage",
		"suspend --all":                             "unknown flag: --all\nSee 'kubectl lockstep suspend --help' for usage",
		"list --stat Queued":                        "unknown flag: --stat\nSee 'kubectl lockstep list --help' for usage",
		"why llama --namspace x":                    "unknown flag: --namspace\nSee 'kubectl lockstep why --help' for usage",
		"map --everything":                          "unknown flag: --everything\nSee 'kubectl lockstep map --help' for usage",
		"list -x":                                   "unknown shorthand flag: 'x' in -x\nSee 'kubectl lockstep list --help' for usage",
		"list --limit":                              "unknown flag: --limit\nSee 'kubectl lockstep list --help' for usage",
		"list --state":                              "flag needs an argument: --state\nSee 'kubectl lockstep list --help' for usage",
		"submit llama --image x torchrun --nproc 8": "unknown flag: --nproc: if it is a flag of the command, write -- before that: kubectl lockstep submit llama [flags] -- torchrun",
		"submit llama --image x python -m train":    "unknown shorthand flag: 'm' in -m: if it is a flag of the command, write -- before that: kubectl lockstep submit llama [flags] -- python",
		"submit llama --image x python train.py":    `"python": there is one name; the command comes after --: kubectl lockstep submit llama [flags] -- python train.py`,
	} {
		_, err := lockstep(strings.Fields(args)...)
		message := ""
		if err != nil {
			message = err.Error()
		}
		check.Equal(t, args, want, message)
	}
}
