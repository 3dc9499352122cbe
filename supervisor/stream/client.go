// Package stream is the supervisor's side of the stream to the leading manager: it connects for ever, tells the last report, and
// delivers orders.
package stream

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

const (
	// firstDelay and maxDelay bound the time between two attempts to connect, which doubles with each.
	firstDelay = time.Second
	maxDelay   = 30 * time.Second
	// answerTimeout is how long the manager may take from an attempt to the first order.
	answerTimeout = 30 * time.Second
	// tokenPoll is how often the token's file is read. The kubelet writes a new token when a fifth of the old one's time is left, and
	// tokens live for ten minutes at least.
	tokenPoll = 30 * time.Second
)

// Options of a Client. The files are read at each attempt.
type Options struct {
	// Address of the manager, host:port.
	Address string
	// ServerName is the name in the manager's certificate.
	ServerName string
	// CAFile has the certificates, in PEM, of who signs the manager's.
	CAFile string
	// RenewedCAFile keeps the certificates that a manager has sent in their place, for the pod's next container; empty to forget them with
	// the client.
	RenewedCAFile string
	// TokenFile has the pod's token.
	TokenFile string
	// Connected, Disconnected and Ordered are called one after the other. A stream is connected with the first order on it.
	Connected, Disconnected func()
	Ordered                 func(*wire.Order)
	Log                     *slog.Logger
	// FirstDelay, MaxDelay and TokenPoll replace the defaults of a second, 30 s and 30 s where they are not 0.
	FirstDelay, MaxDelay, TokenPoll time.Duration
}

// Client keeps a stream to the manager.
type Client struct {
	options Options
	// changed wakes the sender, and closing ends the stream after the report that is the last.
	changed chan struct{}
	closing chan struct{}
	close   sync.Once
	done    chan struct{}
	// trusted are the authorities of the last attempt, and renewed those that a manager has sent; nil for none. Only Run's goroutine has them.
	trusted, renewed *authorities

	mu      sync.Mutex
	report  *wire.Report
	reports int  // there have been
	news    bool // the report is to be tried at once
}

// New returns a client that Run connects.
func New(o Options) *Client {
	setDefault(&o.FirstDelay, firstDelay)
	setDefault(&o.MaxDelay, maxDelay)
	setDefault(&o.TokenPoll, tokenPoll)
	return &Client{
		options: o, changed: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}), renewed: keptAuthorities(o),
	}
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Report is sent at once, or when a stream is up. It replaces one that has not been sent. It is news: where no stream is up, one is tried soon.
func (c *Client) Report(r *wire.Report) { c.replace(r, true) }

// Update is Report of what no stream is tried for.
func (c *Client) Update(r *wire.Report) { c.replace(r, false) }

func (c *Client) replace(r *wire.Report, news bool) {
	c.mu.Lock()
	c.report, c.reports, c.news = r, c.reports+1, c.news || news
	c.mu.Unlock()
	c.wake()
}

// takeNews reports whether there is a report to be tried at once, and has it be none.
func (c *Client) takeNews() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.news
	c.news = false
	return news
}

// wake lets the sender send the last report.
func (c *Client) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// last is a copy of the last report, which is sent and no news any more, and its number; nil for none.
func (c *Client) last() (report *wire.Report, number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news = false
	return proto.CloneOf(c.report), c.reports
}

// Close sends the last report, and waits until the manager has read it, no stream comes up, or the context is done.
func (c *Client) Close(ctx context.Context) {
	c.close.Do(func() { close(c.closing) })
	select {
	case <-c.done:
	case <-ctx.Done():
	}
}

// Run connects until Close or the end of the context: the first time at once, and after that with a delay that grows while there is
// nothing new to report.
func (c *Client) Run(ctx context.Context) {
	defer close(c.done)
	said := ""
	for failures := 0; ; {
		answered, err := c.attempt(ctx)
		if answered {
			failures, said = 0, ""
			c.options.Disconnected()
		}
		if c.over(ctx) {
			return
		}
		if err.Error() != said { // the log is the program's
			said = err.Error()
			c.options.Log.Warn("No stream to the manager; trying again", "address", c.options.Address, "error", err)
		}
		if failures = c.pause(ctx, failures); c.over(ctx) {
			return
		}
	}
}

// pause waits for the next attempt, and returns the failures that its delay is counted from. A report begins them again: a program that
// has failed waits for a manager, and what nobody has heard for an hour may be there now.
func (c *Client) pause(ctx context.Context, failures int) int {
	next := time.Now().Add(c.delay(failures))
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-c.changed:
			if !c.takeNews() {
				continue
			}
			if soon := time.Now().Add(c.delay(0)); soon.Before(next) {
				next, failures = soon, 0
				timer.Reset(time.Until(next))
			}
		case <-timer.C:
			return failures + 1
		case <-ctx.Done():
			return failures
		case <-c.closing:
			return failures
		}
	}
}

func (c *Client) over(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-c.closing:
		return true
	default:
		return false
	}
}

// delay doubles up to its maximum, of which between half and all is taken: thousands of supervisors lose a manager at the same moment.
func (c *Client) delay(failures int) time.Duration {
	d := c.options.FirstDelay
	for range failures {
		if d *= 2; d >= c.options.MaxDelay {
			break
		}
	}
	d = min(d, c.options.MaxDelay)
	return d/2 + rand.N(d/2+1)
}
