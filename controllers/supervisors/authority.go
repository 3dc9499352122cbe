// The manager's certificate authority: what is in its Secret, and when it is renewed.

package supervisors

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	day = 24 * time.Hour
	// authorityLife is how long an authority holds. Two thirds of it, 6 years and 8 months, and the next one is made.
	authorityLife = 3650 * day
	// overlap is how long pods have to learn of the next authority before it signs. They learn of it by their streams, so a pod may run for
	// as long without one, and so may a pod whose supervisor is of a version that does not know of renewals.
	overlap = 365 * day
	// leafLife is how long the server's certificate holds.
	leafLife = 90 * day
	// clockSkew is how far a node's clock may be behind the manager's when an authority is made.
	clockSkew = 5 * time.Minute
)

// Keys of the Secret. The second pair is there while pods learn of the next authority.
const (
	keyCertificate, keyPrivate         = "tls.crt", "tls.key"
	keyNextCertificate, keyNextPrivate = "next.crt", "next.key"
)

// authority signs the server's certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// authorities are those of the Secret.
type authorities struct {
	current *authority
	next    *authority // nil most of the time
}

// renewed are the authorities that there should be now.
func (a authorities) renewed(now time.Time) (authorities, error) {
	if a.current == nil || !now.Before(a.current.certificate.NotAfter) {
		a.current = nil
	}
	var err error
	if a.next == nil && (a.current == nil || !now.Before(renewAt(a.current.certificate))) {
		if a.next, err = newAuthority(now); err != nil {
			return a, err
		}
	}
	if a.next != nil && (a.current == nil || !now.Before(a.next.certificate.NotBefore.Add(clockSkew+overlap))) {
		a.current, a.next = a.next, nil
	}
	return a, nil
}

// renewAt is when two thirds of an authority's life are over.
func renewAt(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 3 * 2)
}

// bundle is what pods should trust, in PEM.
func (a authorities) bundle() []byte {
	out := encodeCertificate(a.current.certificate.Raw)
	if a.next != nil {
		out = append(out, encodeCertificate(a.next.certificate.Raw)...)
	}
	return out
}

func newAuthority(now time.Time) (*authority, error) {
	template, err := newTemplate(now, now.Add(authorityLife))
	if err != nil {
		return nil, err
	}
	template.Subject = pkix.Name{CommonName: "lockstep-supervisor-ca " + now.UTC().Format(time.DateOnly)}
	template.KeyUsage = x509.KeyUsageCertSign
	template.BasicConstraintsValid, template.IsCA, template.MaxPathLenZero = true, true, true
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(raw)
	return &authority{certificate, key}, err
}

// leaf signs a certificate of a server with these DNS names and IP addresses.
func (a *authority) leaf(now time.Time, names []string) (*tls.Certificate, error) {
	until := now.Add(leafLife)
	if until.After(a.certificate.NotAfter) {
		until = a.certificate.NotAfter
	}
	template, err := newTemplate(now, until)
	if err != nil {
		return nil, err
	}
	template.NotBefore = a.certificate.NotBefore // each leader has a certificate of its own: a clock that is behind should not refuse it
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(raw)
	return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: parsed}, err
}

func newTemplate(from, until time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	return &x509.Certificate{SerialNumber: serial, NotBefore: from.Add(-clockSkew), NotAfter: until}, err
}

// parse reads a Secret's data; it has no authority where there is none.
func parse(data map[string][]byte) (a authorities, err error) {
	if a.current, err = parsePair(data, keyCertificate, keyPrivate); err != nil {
		return a, err
	}
	a.next, err = parsePair(data, keyNextCertificate, keyNextPrivate)
	return a, err
}

func parsePair(data map[string][]byte, certificate, private string) (*authority, error) {
	if len(data[certificate]) == 0 && len(data[private]) == 0 {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(data[certificate], data[private])
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", certificate, private, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s and %s: %w", certificate, private, errors.New("not those of an authority with an ECDSA key"))
	}
	return &authority{pair.Leaf, key}, nil
}

// data is what a Secret holds of the authorities.
func (a authorities) data() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, pair := range []struct {
		certificate, private string
		authority            *authority
	}{{keyCertificate, keyPrivate, a.current}, {keyNextCertificate, keyNextPrivate, a.next}} {
		if pair.authority == nil {
			continue
		}
		key, err := x509.MarshalPKCS8PrivateKey(pair.authority.key)
		if err != nil {
			return nil, err
		}
		out[pair.certificate] = encodeCertificate(pair.authority.certificate.Raw)
		out[pair.private] = encodeKey(key)
	}
	return out, nil
}

func (a authorities) equal(b authorities) bool {
	return a.current.equal(b.current) && a.next.equal(b.next)
}

func (a *authority) equal(b *authority) bool {
	return (a == nil) == (b == nil) && (a == nil || bytes.Equal(a.certificate.Raw, b.certificate.Raw))
}

func encodeCertificate(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func encodeKey(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}
