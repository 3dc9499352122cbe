// What a server needs that a test runs beside the cluster: a port, and a certificate.

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// Port is one that is free, and stays ours until the cluster stops. Several tests may ask at once.
func (c *Cluster) Port() (int, error) {
	free, release, err := claimPorts(1)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releases = append(c.releases, release)
	return free[0], nil
}

// CertificateDir is a folder with a certificate for the loopback address as a Secret of type
// kubernetes.io/tls is mounted: tls.crt, tls.key, and ca.crt of the authority that signed it.
func (c *Cluster) CertificateDir() (string, error) {
	if c.authority == nil {
		return "", errNotOurs
	}
	dir := filepath.Join(c.dir, "certificate")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of a certificate: %w", err)
	}
	for to, from := range map[string]string{"tls.crt": servingCert, "tls.key": servingKey, "ca.crt": caFile} {
		content, err := os.ReadFile(c.authority.path(from))
		if err != nil {
			return "", fmt.Errorf("reading a certificate: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), content, 0o600); err != nil {
			return "", fmt.Errorf("writing a certificate: %w", err)
		}
	}
	return dir, nil
}
