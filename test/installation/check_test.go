package installation

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/check"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

var _ = cluster.Options{}

func none(found []check.Finding) bool { return len(found) == 0 }

func TestNothingIsFoundOnAGoodCluster(t *testing.T) {
	await(t, "nothing is found", none)
	stdout, stderr, code, err := run(t.Context())
	t.Logf("%s%s", stdout, stderr)
	if err != nil || code != 0 || stderr != "" || !strings.Contains(stdout, " 0 skipped: 0 problems, 0 warnings.") {
		t.Errorf("exit code %d, error %v, %s\n%s", code, err, stderr, stdout)
	}
}
