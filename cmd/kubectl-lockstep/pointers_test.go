package main

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/version"
)

func TestWordsThatPeopleTry(t *testing.T) {
	for word, want := range map[string]string{
		"delete": "there is no verb delete: `kubectl delete trainingjob NAME`", "status": "there is no verb status: `kubectl lockstep describe JOB`",
	} {
		_, err := lockstep(word, "llama", "--force")
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	out, err := lockstep("version")
	check.Equal(t, "error", nil, err)
	check.Equal(t, "version", "kubectl lockstep "+version.String()+"\n", out)
}
