// Who may sign the manager's certificate: the authorities that the pod was given when it was made, and those that a manager has sent since.

package stream

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/durable"
)

// maxAuthorities is how large the authorities of an order may be, in bytes. A manager has two at most, of less than 1 KiB each.
const maxAuthorities = 64 << 10

// authorities are certificates that the manager's is checked with.
type authorities struct {
	pem  []byte
	pool *x509.CertPool
	// newest is when the newest of them was made, and until is when none of them holds any more.
	newest, until time.Time
}

// parseAuthorities reads certificates in PEM, between which there may be other text, as in the files of many tools.
func parseAuthorities(text []byte) (*authorities, error) {
	a := &authorities{pem: text, pool: x509.NewCertPool()}
	count := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		a.add(certificate)
		count++
	}
	switch {
	case count == 0:
		return nil, errors.New("no certificate in PEM")
	case count != bytes.Count(text, []byte("-----BEGIN ")):
		return nil, errors.New("a certificate in PEM that cannot be read")
	}
	return a, nil
}

func (a *authorities) add(certificate *x509.Certificate) {
	a.pool.AddCert(certificate)
	if certificate.NotBefore.After(a.newest) {
		a.newest = certificate.NotBefore
	}
	if certificate.NotAfter.After(a.until) {
		a.until = certificate.NotAfter
	}
}

func readAuthorities(file string) (*authorities, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	a, err := parseAuthorities(text)
	if err != nil {
		return nil, fmt.Errorf("%s has %w", file, err)
	}
	return a, nil
}

// authorities are those that a manager has sent. The pod's own count where there are none, or where somebody has given the pod newer ones
// since. They are never used together: who withdraws an authority withdraws it from running pods, too.
func (c *Client) authorities() (*authorities, error) {
	given, err := readAuthorities(c.options.CAFile)
	switch {
	case err == nil && (c.renewed == nil || given.newest.After(c.renewed.newest)):
		return given, nil
	case c.renewed == nil:
		return nil, fmt.Errorf("the manager's CA: %w", err)
	}
	return c.renewed, nil
}

// keptAuthorities are those that a manager has sent to an earlier container of the pod; nil where none has.
func keptAuthorities(o Options) *authorities {
	if o.RenewedCAFile == "" {
		return nil
	}
	kept, err := readAuthorities(o.RenewedCAFile)
	if err == nil {
		return kept
	}
	if !errors.Is(err, fs.ErrNotExist) {
		o.Log.Warn("Cannot read the certificate authorities that a manager has sent; those of the pod are used", "error", err)
	}
	return nil
}

// renew uses the authorities of an order from the next attempt on, and keeps them for the pod's next container. What came over a stream that
// a manager has proved to be its own needs no other proof. What cannot be used replaces nothing.
func (c *Client) renew(text []byte) {
	if len(text) == 0 || bytes.Equal(text, c.trusted.pem) {
		return
	}
	renewed, err := usable(text)
	if err != nil {
		c.options.Log.Error("The manager has sent certificate authorities that cannot be used; those that there are stay in use", "error", err)
		return
	}
	c.renewed, c.trusted = renewed, renewed
	c.options.Log.Info("The manager has sent newer certificate authorities", "until", renewed.until)
	if c.options.RenewedCAFile == "" {
		return
	}
	if err := durable.Write(c.options.RenewedCAFile, text); err != nil {
		c.options.Log.Error("Cannot keep the manager's certificate authorities for the pod's next container", "error", err)
	}
}

// usable reads the authorities of an order.
func usable(text []byte) (*authorities, error) {
	if len(text) > maxAuthorities {
		return nil, fmt.Errorf("%d bytes, and %d are too many", len(text), maxAuthorities)
	}
	a, err := parseAuthorities(text)
	if err == nil && time.Now().After(a.until) {
		err = fmt.Errorf("the last of them has expired at %s", a.until)
	}
	return a, err
}
