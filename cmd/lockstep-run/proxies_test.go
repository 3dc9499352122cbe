package main

import (
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

// To Python a * is all hosts only where it stands alone.
func TestAProgramWithoutProxies(t *testing.T) {
	p := newPod(t)
	p.environ = append(p.environ, "HTTPS_PROXY=http://proxy", "HTTP_PROXY=http://proxy", "no_proxy=", "NO_PROXY=*")
	p.run()
	check.Equal(t, "variables", []string{"NO_PROXY=*"}, p.puppets.Next().Variables("NO_PROXY"))
}

// Each of the two variables keeps its hosts: programs read one of them.
func TestAProgramWithTwoListsOfHosts(t *testing.T) {
	p := newPod(t)
	p.environ = append(p.environ, "http_proxy=http://proxy", "no_proxy=localhost", "NO_PROXY=.svc,minio")
	p.run()
	program := p.puppets.Next()
	check.Equal(t, "variables", []string{"NO_PROXY=.svc,minio,127.0.0.1", "no_proxy=localhost,127.0.0.1"}, append(program.Variables("NO_PROXY"), program.Variables("no_proxy")...))
}
