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
