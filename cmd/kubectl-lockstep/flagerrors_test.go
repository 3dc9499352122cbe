package main

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestAFlagThatIsNotThereIsExplained(t *testing.T) {
	for args, want := range map[string]string{
		"submit llama --worker=4":                     "unknown flag: --worker; did you mean --workers?",
		"submit llama --nodes=4":                      "unknown flag: --nodes; did you mean --workers?",
		"submit llama --gpu=4":                        "unknown flag: --gpu; did you mean --gpus?",
		"restart llama --pod=x":                       "unknown flag: --pod: `kubectl lockstep restart --help` lists the flags",
		"suspend --all":                               "unknown flag: --all: `kubectl lockstep suspend --help` lists the flags",
		"list --stat Queued":                          "unknown flag: --stat; did you mean --state?",
		"why llama --namspace x":                      "unknown flag: --namspace; did you mean --namespace?",
		"map --everything":                            "unknown flag: --everything: `kubectl lockstep map --help` lists the flags",
		"list -x":                                     "unknown shorthand flag: 'x' in -x",
		"list --limit":                                "unknown flag: --limit: `kubectl lockstep list --help` lists the flags",
		"list --state":                                "flag needs an argument: --state",
		"submit llama --image x torchrun --nproc 8":   "unknown flag: --nproc: if it is a flag of the command, write -- before that: kubectl lockstep submit llama [flags] -- torchrun",
		"submit llama --image x python -m train":      "unknown shorthand flag: 'm' in -m: if it is a flag of the command, write -- before that: kubectl lockstep submit llama [flags] -- python",
		"submit llama --image x python train.py":      `"python": there is one name; the command comes after --: kubectl lockstep submit llama [flags] -- python train.py`,
		"simulate -f job.yaml --fialures models.yaml": "unknown flag: --fialures; did you mean --failures?",
	} {
		_, err := lockstep(strings.Fields(args)...)
		message := ""
		if err != nil {
			message = err.Error()
		}
		check.Equal(t, args, want, message)
	}
}
