package localcluster

import (
	"crypto/x509"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestValidCertificatesAreKeptAndExpiringOnesRenewed(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	for name, tc := range map[string]struct {
		pass             time.Duration
		newLeaf, newRoot bool
	}{
		"the next day all is kept":                        {pass: day},
		"in its last month a certificate is renewed":      {pass: 336 * day, newLeaf: true},
		"an expired certificate is renewed":               {pass: 500 * day, newLeaf: true},
		"an authority that would expire first takes all ": {pass: authorityLife - certificateLife, newLeaf: true, newRoot: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := layout(t.TempDir())
			g.Expect(dir.make()).To(Succeed())
			before := snapshotOf(g, dir, issuer{clock})
			after := snapshotOf(g, dir, issuer{clocktesting.NewFakePassiveClock(clock.Now().Add(tc.pass))})

			g.Expect(after[clusterCA] != before[clusterCA]).To(Equal(tc.newRoot), "authority")
			g.Expect(after[adminCert] != before[adminCert]).To(Equal(tc.newLeaf), "certificate")
			g.Expect(after[serviceAccountKey]).To(Equal(before[serviceAccountKey]), "tokens became invalid")
		})
	}
}

// snapshotOf returns the contents of the files after a start.
func snapshotOf(g Gomega, dir layout, i issuer) map[string]string {
	_, err := ensurePKI(dir, i)
	g.Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for name, file := range map[string]string{
		clusterCA: clusterCA + ".crt", adminCert: adminCert + ".crt", serviceAccountKey: serviceAccountKey,
	} {
		data, err := os.ReadFile(dir.pki(file))
		g.Expect(err).NotTo(HaveOccurred())
		files[name] = string(data)
	}
	return files
}

func TestClientCertificateIsInvalidForEtcd(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := layout(t.TempDir())
	g.Expect(dir.make()).To(Succeed())
	clock := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	p, err := ensurePKI(dir, issuer{clock})
	g.Expect(err).NotTo(HaveOccurred())
	user, err := p.client("jane")
	g.Expect(err).NotTo(HaveOccurred())

	for authority, trusted := range map[string]bool{clusterCA: true, etcdCA: false} {
		roots := x509.NewCertPool()
		roots.AddCert(p.authorities[authority].cert)
		_, err := user.cert.Verify(x509.VerifyOptions{
			Roots: roots, CurrentTime: clock.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		g.Expect(err == nil).To(Equal(trusted), authority)
	}
}

func TestOnlyTheOwnerCanReadKeys(t *testing.T) {
	g := NewWithT(t)
	dir := layout(t.TempDir())
	g.Expect(dir.make()).To(Succeed())
	clock := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	_, err := ensurePKI(dir, issuer{clock})
	g.Expect(err).NotTo(HaveOccurred())
	files, err := os.ReadDir(dir.path("pki"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		info, err := file.Info()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)), file.Name())
	}
}
