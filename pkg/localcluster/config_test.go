package localcluster_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestMissingBinariesAreReportedWithAdvice(t *testing.T) {
	g := NewWithT(t)
	t.Setenv(localcluster.AssetsEnv, t.TempDir())
	_, err := localcluster.Start(t.Context(), localcluster.Config{Dir: t.TempDir()})
	g.Expect(err).To(MatchError(localcluster.ErrNoAssets))
	g.Expect(err).To(MatchError(ContainSubstring("make build")))
}
