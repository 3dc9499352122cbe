// Package serverclock takes the time from the answers of an API server, by which its objects are dated.
package serverclock

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// Clock is the clock of an API server. It is safe for use by many requests at once.
type Clock struct{ now atomic.Pointer[time.Time] }

// Now is the time of the last answer, to the second; zero before the first.
func (c *Clock) Now() time.Time {
	if now := c.now.Load(); now != nil {
		return *now
	}
	return time.Time{}
}

// Watch has every answer to a client of this configuration set the clock.
func (c *Clock) Watch(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil {
				if at, wrong := http.ParseTime(response.Header.Get("Date")); wrong == nil {
					c.now.Store(&at)
				}
			}
			return response, err
		})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
