// What an answer means, whatever it is that listens at a pod's port.

package controllers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestAnswers(t *testing.T) {
	says := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	saved := gang.Answer{Saved: true}
	refuses := func(message string) gang.Answer { return gang.Answer{Refused: true, Message: message} }
	tests := map[string]struct {
		program http.HandlerFunc
		want    gang.Answer // its message is a part of it
	}{
		"200":                        {says(200), saved},
		"204":                        {says(204), saved},
		"299":                        {says(299), saved},
		"304":                        {says(304), refuses("answered 304 Not Modified")},
		"404":                        {says(404), refuses("answered 404 Not Found")},
		"500":                        {says(500), refuses("answered 500 Internal Server Error")},
		"a status that nobody knows": {says(599), refuses("answered 599 ")},
		"503, later":                 {says(503), gang.Answer{Message: "answered 503 Service Unavailable"}},
		"429, later":                 {says(429), gang.Answer{Message: "answered 429 Too Many Requests"}},
		"a body without an end, which nobody reads": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, saved},
		"a header that is too large": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, gang.Answer{Message: "server response headers exceeded 16384 bytes"}},
		"it hangs up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, gang.Answer{Message: "EOF"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.program)
			defer server.Close()
			got := post(t.Context(), server.URL, nil)
			if !strings.Contains(got.Message, tc.want.Message) || (tc.want.Message == "") != (got.Message == "") {
				t.Errorf("message %q, want %q", got.Message, tc.want.Message)
			}
			got.Message, tc.want.Message = "", ""
			check.Equal(t, "answer", tc.want, got)
		})
	}
}

// A program cannot send the manager elsewhere.
func TestNoRedirectIsFollowed(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler(other.URL, code))
		got := post(t.Context(), server.URL, []byte("{}"))
		check.Equal(t, "refused", true, got.Refused)
		server.Close()
	}
	check.Equal(t, "requests elsewhere", 0, elsewhere.Load())
}

func TestNoProxyIsAsked(t *testing.T) {
	if programs.Transport.(*http.Transport).Proxy != nil {
		t.Error("programs are asked through a proxy")
	}
}

// request sends one to a pod, and returns what asks.
func request(t *testing.T, ip string, port int32, path string, timeout time.Duration) (*checkpoints, gang.AnswerKey) {
	t.Helper()
	c := &checkpoints{}
	c.send(key, policies.Ask{ID: "r", Port: port, Path: path, Pods: []policies.AskedPod{{Name: "p", UID: "u", IP: ip}}}, timeout)
	return c, gang.AnswerKey{Request: "r", Pod: "u"}
}

// reservePort is a port on which nobody listens before the caller lets somebody: a socket that is
// bound, and does not listen, keeps it from all who take any port.
func reservePort(t *testing.T) int {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return name.(*syscall.SockaddrInet4).Port
}

// Where nobody listens, or there is no time now, the pod is asked again.
func TestAPodIsAskedAgain(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	server.Listener.Close()
	port := reservePort(t)
	c, pod := request(t, "127.0.0.1", int32(port), "/", time.Minute)
	for !strings.Contains(c.answers(key)[pod].Message, "connection refused") {
		time.Sleep(time.Millisecond)
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	server.Listener = listener
	server.Start()
	defer server.Close()
	c.running.Wait()
	check.Equal(t, "answer", gang.Answer{Saved: true}, c.answers(key)[pod])
	check.Equal(t, "asked", 2, asked.Load())
}

// One that has the connection and does not answer was reached, whatever came before.
func TestAPodThatWasReachedIsOneThatIsWaitedFor(t *testing.T) {
	release, reached := make(chan struct{}), make(chan struct{})
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		close(reached)
		<-release
	}))
	defer server.Close()
	defer close(release)
	ip, port := at(t, server)
	c, pod := request(t, ip, port, "/", time.Hour)
	take(t, "the second request", reached)
	check.Equal(t, "answer", gang.Answer{}, c.answers(key)[pod])
	c.keep(key, nil)
	c.running.Wait()
}

func TestAPathIsAPath(t *testing.T) {
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path + " " + r.URL.RawQuery }))
	defer server.Close()
	ip, port := at(t, server)
	c, _ := request(t, ip, port, "/a b?c=d#e", time.Minute)
	c.running.Wait()
	check.Equal(t, "path", "/a b?c=d#e ", take(t, "the request", got))
}

// The end of the manager ends what is being asked, and nothing begins after it.
func TestTheManagerStopsAsking(t *testing.T) {
	p := aProgram(t)
	ip, port := at(t, p.Server)
	c, _ := request(t, ip, port, "/save", time.Hour)
	take(t, "the request", p.asked)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := c.Start(ctx); err != nil {
		t.Error(err)
	}
	take(t, "its end", p.ended)
	c.send(key, policies.Ask{ID: "late", Pods: []policies.AskedPod{{}}}, time.Hour)
	check.Equal(t, "requests", 1, len(c.sent[key]))
}

// roundTripper answers requests in the place of programs.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Programs that never answer keep none of another job waiting, and those of many jobs none of another namespace.
func TestRoomForRequests(t *testing.T) {
	before := programs
	defer func() { programs = before }()
	asked := make(chan string, 30000)
	programs = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		asked <- r.URL.Path
		if !strings.HasPrefix(r.URL.Path, "/large") {
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	})}
	c := &checkpoints{}
	job := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	send := func(job types.NamespacedName, path string, pods int) {
		ask := policies.Ask{ID: path, Path: path}
		for i := range pods {
			ask.Pods = append(ask.Pods, policies.AskedPod{IP: "192.0.2.1", UID: fmt.Sprint(i)})
		}
		c.send(job, ask, time.Hour)
	}
	isAsked := func(path string, pods int) {
		t.Helper()
		for range pods {
			check.Equal(t, "asked", path, take(t, "a request to "+path, asked))
		}
	}
	isFull := func(share types.NamespacedName) bool {
		used := c.slots.use(share, 1)
		defer c.slots.leave(share)
		return !used.TryAcquire(1)
	}
	send(job("a", "large-0"), "/large-0", 8000)
	isAsked("/large-0", 8000)
	check.Equal(t, "the share of a job is used up", true, isFull(job("a", "large-0")))
	send(job("a", "small"), "/small", 10)
	isAsked("/small", 10)
	send(job("a", "large-0"), "/large-0-again", 10)
	send(job("a", "large-1"), "/large-1", 8000)
	isAsked("/large-1", 8000)
	check.Equal(t, "the share of a namespace is used up", true, isFull(types.NamespacedName{Namespace: "a"}))
	send(job("a", "late"), "/late", 1)
	send(job("b", "small"), "/other", 10)
	isAsked("/other", 10)
	waits := gang.Answer{Message: notAsked}
	check.Equal(t, "of the same job", waits, c.answers(job("a", "large-0"))[gang.AnswerKey{Request: "/large-0-again", Pod: "0"}])
	check.Equal(t, "of the same namespace", waits, c.answers(job("a", "late"))[gang.AnswerKey{Request: "/late", Pod: "0"}])
	check.Equal(t, "of one that hangs", gang.Answer{}, c.answers(job("a", "large-1"))[gang.AnswerKey{Request: "/large-1", Pod: "0"}])

	c.keep(job("a", "large-1"), nil)
	isAsked("/late", 1)
	c.keep(job("a", "large-0"), []string{"/large-0-again"})
	isAsked("/large-0-again", 10)
	c.keep(job("a", "large-0"), nil)
	c.running.Wait()
	check.Equal(t, "answer", gang.Answer{Saved: true}, c.answers(job("a", "late"))[gang.AnswerKey{Request: "/late", Pod: "0"}])
	check.Equal(t, "shares that are remembered", 0, len(c.slots.of))
}
