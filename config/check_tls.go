package config

import "fmt"

// tls checks settings by themselves, wherever they are used.
func (c *checker) tls(s *TLS, path string) {
	c.groups(s, path)
	if s.MinVersion == TLS12 {
		if s.PQ.Required() {
			c.fail(join(path, "min_version"), "TLS 1.2 is never post-quantum, and pq is "+string(s.PQ), "drop min_version, or prefer")
		} else {
			c.warn(join(path, "min_version"), "TLS 1.2 is never post-quantum: what such peers say can be recorded and read later", "")
		}
	}
	if s.Identity != nil {
		c.identity(s, path)
	}
	if s.ClientAuth != ClientAuthNone && s.ClientCA == "" && !c.failedBelow(join(path, "client_ca")) {
		c.fail(join(path, "client_auth"), "needs client_ca, the CAs that clients' certificates chain to", "")
	}
	for i, host := range certHosts(s) {
		at := itemPath(c, join(path, "certificates.dev.hosts"), i)
		if err := checkHost(host); err != nil {
			c.fail(at, err.Error(), "")
		}
	}
	if s.ServerName != "" {
		if err := checkHost(s.ServerName); err != nil {
			c.fail(join(path, "server_name"), err.Error(), "")
		}
	}
}

// certificates checks the sources that need more of the tree; name is that of
// the settings, empty where they stand inline at an upstream.
func (c *checker) certificates(s *TLS, name, path string) {
	at := join(path, "certificates")
	c.acme(s.Certificates.ACME, name, join(at, "acme"))
	if name == "" && s.Certificates.ACME != nil {
		c.fail(join(at, "acme"), "is for listeners; it stands at an upstream", "")
	}
	c.storeCertificates(s.Certificates.KMS, name, join(at, "kms"))
}

// identity checks that the proof rests on what it needs.
func (c *checker) identity(s *TLS, path string) {
	at, id := join(path, "identity"), s.Identity
	switch {
	case id.Store == "":
		for _, f := range []struct {
			key   string
			value File
		}{{"cert", id.Cert}, {"key", id.Key}} {
			if f.value == "" && !c.failedBelow(join(at, f.key)) {
				c.fail(join(at, f.key), "is missing", "an identity has cert and key, or store")
			}
		}
	case id.Cert != "" || id.Key != "":
		c.fail(at, "needs cert and key, files, or store, an entry of our own; it has both", "")
	case c.tree.KMS == nil:
		c.fail(join(at, "store"), "there is no store", "add kms: {dir, master} at the top")
	}
	if s.MinVersion == TLS12 {
		c.fail(join(path, "identity"), "needs TLS 1.3, and min_version is 1.2", "drop min_version")
	}
	if !s.PQ.Required() && !c.failed(join(path, "pq")) {
		c.warn(join(path, "identity"), "the peer is proven against quantum computers, what is said to it is not: pq is "+string(s.PQ), "say pq: require")
	}
}

func certHosts(s *TLS) []string {
	if s.Certificates.Dev == nil {
		return nil
	}
	return s.Certificates.Dev.Hosts
}

// groups checks that the groups can hold what pq promises.
func (c *checker) groups(s *TLS, path string) {
	seen := map[Group]bool{}
	hybrid, classical := false, false
	for i, g := range s.Groups {
		at := index(join(path, "groups"), i)
		switch {
		case g == "":
			continue
		case seen[g]:
			c.fail(at, fmt.Sprintf("%s is given twice", g), "")
		case s.PQ == PQRequire && !g.PostQuantum():
			c.fail(at, fmt.Sprintf("%s is classical, and pq is require", g), "drop it, or prefer")
		case s.PQ == PQCNSA2 && g != MLKEM1024 && g != SecP384r1MLKEM1024:
			c.fail(at, fmt.Sprintf("%s is none of MLKEM1024 and SecP384r1MLKEM1024, and pq is cnsa2", g), "drop it, or require")
		case s.PQ == PQOff && g.PostQuantum():
			c.fail(at, fmt.Sprintf("%s is post-quantum, and pq is off", g), "drop it, or prefer")
		}
		seen[g] = true
		hybrid = hybrid || g.PostQuantum()
		classical = classical || !g.PostQuantum()
	}
	if s.PQ != PQPrefer || len(s.Groups) == 0 || c.failedBelow(join(path, "groups")) {
		return
	}
	if !hybrid {
		c.warn(join(path, "groups"), "the list drops post-quantum key exchange: every connection will be classical", "add "+string(X25519MLKEM768))
	}
	if !classical {
		c.warn(join(path, "groups"), "the list refuses every classical peer, as pq: require does", "say pq: require")
	}
}

// tlsNamed looks settings up by name and says so where there are none.
func (c *checker) tlsNamed(name, path string) *TLS {
	s, ok := c.tree.TLS[name]
	if !ok {
		if !c.failedBelow(join("tls", name)) {
			c.fail(path, fmt.Sprintf("no TLS settings are named %q", name), suggest(name, sortedKeys(c.tree.TLS)))
		}
		return nil
	}
	c.usedTLS[name] = true
	return s
}
