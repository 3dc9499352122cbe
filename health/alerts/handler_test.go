package alerts

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestAnswers(t *testing.T) {
	good := payloadJSON(alertOf(firing, "n1", "GPU-a", "A"))
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, c := range map[string]struct {
		body   string
		change func(*http.Request)
		world  func(*world)
		code   int
		says   string
	}{
		"good":                         {body: good, code: 200, says: "Applied: 1"},
		"good, with a charset":         {body: good, change: header("Content-Type", "application/json; charset=utf-8"), code: 200},
		"GET":                          {body: good, change: func(r *http.Request) { r.Method = http.MethodGet }, code: 405, says: "Alertmanager posts"},
		"a form":                       {body: good, change: header("Content-Type", "application/x-www-form-urlencoded"), code: 415, says: "Content-Type"},
		"no content type":              {body: good, change: header("Content-Type", ""), code: 415, says: "Content-Type"},
		"no token":                     {body: good, change: header("Authorization", ""), code: 401, says: "credentials_file"},
		"an empty token":               {body: good, change: header("Authorization", "Bearer "), code: 401, says: "credentials_file"},
		"a password":                   {body: good, change: header("Authorization", "Basic Z29vZA=="), code: 401, says: "credentials_file"},
		"a wrong token":                {body: good, change: header("Authorization", "Bearer wrong"), code: 401, says: "does not know"},
		"a token without the right":    {body: good, change: header("Authorization", "Bearer "+otherToken), code: 403, says: "lockstep-alert-sender"},
		"a path without the right":     {body: good, change: func(r *http.Request) { r.URL.Path = "/alertmanager/other" }, code: 403, says: "may not post"},
		"no JSON":                      {body: "alerts", code: 400, says: "not a payload"},
		"another version":              {body: strings.Replace(good, `"4"`, `"5"`, 1), code: 400, says: `version: "5"`},
		"no alert says its node":       {body: payloadJSON(alertJSON(firing, map[string]string{"alertname": "A"})), code: 400, says: "no node is named"},
		"a severity of others":         {body: payloadJSON(alertOf(firing, "n1", "GPU-a", "A", LabelSeverity, "page")), code: 400, says: LabelSeverity},
		"only unknown nodes":           {body: payloadJSON(alertOf(firing, "gone", "GPU-a", "A")), code: 200, says: `no node is named "gone"`},
		"too large":                    {body: good + strings.Repeat(" ", maxBody), code: 413, says: "group_by"},
		"too large, of a stranger":     {body: good + strings.Repeat(" ", maxBody), change: header("Authorization", "Bearer wrong"), code: 401},
		"an API server that is away":   {body: good, world: func(w *world) { w.away = true }, code: 503, says: "connection refused"},
		"one that cannot tell who":     {body: good, world: func(w *world) { w.deaf = true }, code: 503, says: "could not be asked"},
		"alerts that were left out":    {body: strings.Replace(good, `"truncatedAlerts":0`, `"truncatedAlerts":7`, 1), code: 200, says: "max_alerts"},
		"more reasons than are told":   {body: payloadJSON(strings.Split(strings.Repeat(alertOf(firing, "gone", "GPU-a", "A")+"\n", 25), "\n")[:25]...), code: 200, says: "and 5 more"},
		"a bad one among the good":     {body: strings.Replace(payloadJSON(alertOf(firing, "n1", "GPU-a", "A"), alertOf(firing, "n1", "GPU-b", "B")), `"firing","labels"`, `"on","labels"`, 1), code: 400, says: `alerts[0].status: "on"`},
		"a time that nobody can write": {body: strings.Replace(good, "2026-01-02T03:04:05.678Z", "0001-06-01T00:00:00Z", 1), code: 400, says: "startsAt"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, node("n1"))
			if c.world != nil {
				c.world(w)
			}
			change := c.change
			if change == nil {
				change = func(*http.Request) {}
			}
			answer := w.post(c.body, change)
			if answer.Code != c.code || !strings.Contains(answer.Body.String(), c.says) {
				t.Errorf("%d %s, want %d and %q", answer.Code, answer.Body, c.code, c.says)
			}
			w.away = false
			if set := w.entries(t, "n1") != ""; set != (c.code == 200 && !strings.Contains(c.says, "no node") && !strings.Contains(c.says, "more")) {
				t.Errorf("n1 has %q after %d", w.entries(t, "n1"), answer.Code)
			}
		})
	}
}

// A sender without the right waits for a person, which is an error. What is sent again is none.
func TestASenderWithoutTheRightIsAnError(t *testing.T) {
	var errors []string
	h := &Handler{Log: funcr.NewJSON(func(line string) {
		if strings.Contains(line, `"error":`) {
			errors = append(errors, line)
		}
	}, funcr.Options{})}
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest, http.StatusServiceUnavailable} {
		h.logRefusal(&refusal{code: code, reason: "why"})
	}
	check.Equal(t, "errors", []string{
		`{"logger":"","msg":"alerts refused","error":null,"code":401,"reason":"why"}`,
		`{"logger":"","msg":"alerts refused","error":null,"code":403,"reason":"why"}`,
	}, errors)
}

func TestAnswersSayHowToGoOn(t *testing.T) {
	w := newWorld(t)
	if answer := w.post("", func(r *http.Request) { r.Method = http.MethodPut }); answer.Header().Get("Allow") != http.MethodPost {
		t.Error("405 without Allow")
	}
	if answer := w.post("", func(r *http.Request) { r.Header.Del("Authorization") }); answer.Header().Get("WWW-Authenticate") != "Bearer" {
		t.Error("401 without WWW-Authenticate")
	}
}

func TestFlags(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		options Options
		why     string
	}{
		"a port":          {Options{":9443", dir}, ""},
		"host and port":   {Options{"127.0.0.1:9443", dir}, ""},
		"a bare port":     {Options{"9443", dir}, "is not host:port"},
		"a named port":    {Options{":https", dir}, "number from 1 to 65535"},
		"no such port":    {Options{":70000", dir}, "number from 1 to 65535"},
		"no certificates": {Options{":9443", ""}, "--alerts-cert-dir is missing"},
		"an empty folder": {Options{":9443", t.TempDir()}, "tls.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.options.Validate()
			if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("error %v, want %q", err, c.why)
			}
		})
	}
}
