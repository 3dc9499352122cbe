package steps

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

// kubeflow is an open door, what it hears, and the variables of the program.
func kubeflow(t *testing.T) (*Listener, map[string]string) {
	t.Helper()
	var l Listener
	k, err := NewKubeflow(filepath.Join(t.TempDir(), "token"), &l, slog.New(slog.DiscardHandler))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go k.Run(ctx)
	return &l, k.Environ()
}

// post sends a request as a program does.
func post(t *testing.T, env map[string]string, body string, change func(*http.Request)) (code int, answer string) {
	t.Helper()
	token, err := os.ReadFile(env[envToken])
	must(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, env[EnvURL], strings.NewReader(body))
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+string(token))
	r.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(r)
	}
	response, err := http.DefaultClient.Do(r)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(text)
}

// The requests of transformers' KubeflowCallback, in the order in which a run sends them (src/transformers/integrations/integration_utils.py). They are
// recorded by hand from its code: transformers was not run.
func TestHuggingFaceCallback(t *testing.T) {
	l, env := kubeflow(t)
	for _, tc := range []struct {
		body string
		want *wire.Progress
	}{
		{`{"trainerStatus": {"lastUpdatedTime": "2026-01-02T03:04:05.678901+00:00", "progressPercentage": 0, "metrics": [{"name": "total_steps", "value": "5000"}]}}`,
			&wire.Progress{Percent: new(int32(0)), TotalSteps: new(int64(5000))}},
		{`{"trainerStatus": {"lastUpdatedTime": "2026-01-02T03:04:10.678901+00:00", "progressPercentage": 2, "estimatedRemainingSeconds": 245, "metrics": [` +
			`{"name": "loss", "value": "2.5"}, {"name": "` + strings.Repeat("a", 65) + `", "value": "nan"}, ` +
			`{"name": "current_step", "value": "100"}, {"name": "total_steps", "value": "5000"}, {"name": "current_epoch", "value": "0.02"}]}}`,
			&wire.Progress{Percent: new(int32(2)), Step: new(int64(100)), TotalSteps: new(int64(5000))}},
		{`{"trainerStatus": {"lastUpdatedTime": "2026-01-02T03:08:15.678901+00:00", "progressPercentage": 100, "estimatedRemainingSeconds": 0, "metrics": [{"name": "train_loss", "value": "1.5"}]}}`,
			&wire.Progress{Percent: new(int32(100)), Step: new(int64(100)), TotalSteps: new(int64(5000))}},
	} {
		code, answer := post(t, env, tc.body, nil)
		check.Equal(t, "code", 200, code)
		check.Equal(t, "answer", tc.body, answer)
		same(t, "heard", tc.want, l.Last())
	}
}

func TestStatusRequestsThatAreRefused(t *testing.T) {
	l, env := kubeflow(t)
	good := `{"trainerStatus": {"progressPercentage": 1}}`
	for name, tc := range map[string]struct {
		body   string
		change func(*http.Request)
		code   int
		answer string
	}{
		"no token":          {good, func(r *http.Request) { r.Header.Del("Authorization") }, 401, envToken},
		"another token":     {good, func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, 401, envToken},
		"another path":      {good, func(r *http.Request) { r.URL.Path = "/status" }, 404, "want /apis/"},
		"another method":    {good, func(r *http.Request) { r.Method = http.MethodPut }, 405, "want POST"},
		"too large":         {strings.Repeat(" ", bodyLimit+1), nil, 413, "want 65536 bytes at most"},
		"no JSON":           {"progress: 1", nil, 422, "want a JSON object with trainerStatus"},
		"a text":            {`{"trainerStatus": {"progressPercentage": "1"}}`, nil, 422, "progressPercentage"},
		"more than all":     {`{"trainerStatus": {"progressPercentage": 101}}`, nil, 422, "trainerStatus.progressPercentage: 101: want 0 to 100"},
		"less than nothing": {`{"trainerStatus": {"progressPercentage": -1}}`, nil, 422, "want 0 to 100"},
		"no status":         {`{}`, nil, 200, "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			code, answer := post(t, env, tc.body, tc.change)
			check.Equal(t, "code", tc.code, code)
			if !strings.Contains(answer, tc.answer) {
				t.Errorf("answer: %s", answer)
			}
			if code != 200 && !strings.Contains(answer, `"kind":"Status"`) {
				t.Errorf("no metav1.Status: %s", answer)
			}
		})
	}
	same(t, "heard", nil, l.Last())
	code, _ := post(t, env, good, func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "Bearer", "bearer", 1))
	})
	check.Equal(t, "code of another case", 200, code)
}

func FuzzTake(f *testing.F) {
	f.Add(`{"trainerStatus": {"progressPercentage": 2, "metrics": [{"name": "current_step", "value": "100"}, {"name": "total_steps", "value": "5e3"}]}}`)
	f.Fuzz(func(t *testing.T, body string) {
		var l Listener
		k := &Kubeflow{listener: &l}
		k.take(httptest.NewRecorder(), 0, []byte(body))
		if p := l.Last(); p != nil && (min(p.GetStep(), p.GetTotalSteps(), int64(p.GetPercent())) < 0 || p.GetPercent() > 100) {
			t.Errorf("%q: %v", body, p)
		}
	})
}

// Strangers without the token, who may be any that share the network namespace, keep no program waiting by connections that they leave open.
func TestStrangersHoldNoConnection(t *testing.T) {
	k, err := NewKubeflow(filepath.Join(t.TempDir(), "token"), &Listener{}, slog.New(slog.DiscardHandler))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go k.Run(ctx)
	u, err := url.Parse(k.Environ()[EnvURL])
	must(t, err)
	for range connections + 1 {
		c, err := net.Dial("tcp", u.Host)
		must(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		answer, err := io.ReadAll(c) // to its end: the other side closes it
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 4") || !strings.Contains(string(answer), "Connection: close") {
			t.Fatalf("%q, %v", answer, err)
		}
	}
}
