package secretshare_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// sequence is a random sequence of changes of one rule.
type sequence struct {
	*secretshare.Model
	t       *testing.T
	rng     *rand.Rand
	history []string
}

const (
	realSequences = 24
	realRounds    = 6
)

// Many rules change at the same time, also while no operator runs. The demands of all
// rounds stay in the model, since no one knows what the operator has read.
func TestCopiesAreAsDemandedOnARealAPIServerAfterAnySequenceOfChanges(t *testing.T) {
	c := cluster.Start(t)
	operator := c.StartOperator(t)
	var sequences []*sequence
	for seed := range uint64(realSequences) {
		sequences = append(sequences, newSequence(t, c, seed))
	}
	for _, s := range sequences {
		s.expectAsDemanded()
		NewWithT(t).Expect(s.Settled(t.Context())).To(Succeed())
	}
	for round := range realRounds {
		restart := round%3 == 1
		if restart {
			NewWithT(t).Expect(operator.Stop()).To(Succeed())
		}
		for _, s := range sequences {
			s.change(1 + s.rng.IntN(6))
		}
		if restart {
			operator = c.StartOperator(t)
		}
		for _, s := range sequences {
			s.expectAsDemanded()
		}
	}
	for _, s := range sequences {
		NewWithT(t).Expect(s.DeleteRule(t.Context())).To(Succeed())
	}
	for _, s := range sequences {
		s.expectAsDemanded()
	}
}

// newSequence creates a rule, its namespaces and its sources.
func newSequence(t *testing.T, c *cluster.Cluster, seed uint64) *sequence {
	t.Helper()
	kind := []string{v1alpha1.KindSecretShare, v1alpha1.KindClusterSecretShare}[seed%2]
	m := &secretshare.Model{Client: c.Client, Kind: kind, Sources: []string{c.Namespace(t, nil), c.Namespace(t, nil)}}
	m.Rule = m.Sources[0]
	for range 3 {
		m.Targets = append(m.Targets, c.Namespace(t, m.TargetLabels()))
	}
	s := &sequence{Model: m, t: t, rng: rand.New(rand.NewPCG(seed, 0))}
	NewWithT(t).Expect(m.Prepare(t.Context())).To(Succeed())
	return s
}

func (s *sequence) change(n int) {
	s.t.Helper()
	for range n {
		what, err := s.Change(s.t.Context(), s.rng)
		s.history = append(s.history, what)
		NewWithT(s.t).Expect(err).NotTo(HaveOccurred(), what)
	}
	s.history = append(s.history, "check")
}

func (s *sequence) expectAsDemanded() {
	s.t.Helper()
	NewWithT(s.t).Eventually(func() error { return s.Check(s.t.Context()) }).Should(Succeed(), func() string {
		return fmt.Sprintf("rule %s, after:\n%s", s.Rule, strings.Join(s.history, "\n"))
	})
}
