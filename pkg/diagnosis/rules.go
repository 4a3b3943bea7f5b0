package diagnosis

// rule maps a text of a component to a message and advice. Both may use the submatches of
// the expression (${1}).
type rule struct {
	// name is unique among all rules. It is in lower case, with hyphens.
	name string
	text *pattern
	// message is empty for an obstacle, because the cause quotes the scheduler.
	message, advice string
	// late replaces the advice if waiting has not helped. A rule has it if its advice is to wait.
	late    string
	problem persistence
	// reason is that of the cause, for a rule that decides it.
	reason string
	// means is what code decides by.
	means Meaning
	// namesTaint: only Kubernetes, clouds and autoscalers set the taint that the expression names. The
	// rule sees it, although it is a name.
	namesTaint bool
}

// persistence is whether a problem can end without a change. For an obstacle, it is whether it comes and
// goes with the state of nodes and of other pods.
type persistence int

const (
	_ persistence = iota // each rule must say it
	passing
	lasting
)

// Meaning is what a rule or a cause means to code that decides by it. Most need none.
type Meaning int

// The meanings.
const (
	// MeansAccessDenied: the registry denies access, or has no such repository.
	MeansAccessDenied Meaning = iota + 1
	// MeansNoCredentials: the same, and the node sent no credentials.
	MeansNoCredentials
	// MeansExpiredCredentials: the registry reports that the credentials have expired.
	MeansExpiredCredentials
	// MeansNodeStorage: the image store or the disk of the node is the problem.
	MeansNodeStorage
	// MeansMemoryToStart: the runtime exceeds the memory limit before it runs the command.
	MeansMemoryToStart
	// MeansMissingCommand: the image does not contain the command, which is the first group of the rule.
	MeansMissingCommand
	// MeansWrongPort: a probe can ask the wrong port.
	MeansWrongPort
	// MeansUndefinedPort: the same, and the message names the port.
	MeansUndefinedPort
	// MeansMissingStorageClass: the StorageClass that a claim names does not exist.
	MeansMissingStorageClass
	// MeansMissingPriorityClass: the PriorityClass that a pod names does not exist.
	MeansMissingPriorityClass
	// MeansMissingRuntimeClass: the RuntimeClass that a pod names does not exist.
	MeansMissingRuntimeClass
	// MeansLimitRange: a LimitRange of the namespace forbids it.
	MeansLimitRange
	// MeansUnseenEnd: the node has no record of how a container ended.
	MeansUnseenEnd
)

// explanation is the result of a rule.
type explanation struct {
	message, advice string
	// late is that of the rule.
	late      string
	transient bool
	means     Meaning
	// first is what the first group of the rule matches.
	first string
}

// stage is a part of the work of a cluster, with the tables of rules for its texts.
type stage struct {
	name   string
	tables [][]rule
}

// stages are all rules, in the order in which a pod starts. The names are those of the files of the
// corpus. A rule of two tables has one name.
var stages = []stage{
	{"creation", [][]rule{creationRules}},
	{"storage", [][]rule{lostClaimRules, driverRules, provisioningRules, resizeRules, modifyRules, mountRules}},
	{"scheduler", [][]rule{claimRules, excluding, schedulingAdvice, karpenterAdvice}},
	{"nodes", [][]rule{rejectedRules, diskRules}},
	{"network", [][]rule{networkRules}},
	{"images", [][]rule{layerRules, imageRules}},
	{"containers", [][]rule{runtimeRules, configRules, probeRules}},
	{"controllers", [][]rule{budgetRules, unmanagedRules, sharedPodRules, scalingRules}},
}

// onApplied observes which rules apply, for tests.
var onApplied func(*rule)

// applied reports to a test that the rule explains a text.
func (r *rule) applied() {
	if onApplied != nil {
		onApplied(r)
	}
}

// explain returns the result of the rule if it matches hidden, which is the text without names.
// limit is that of the message, in bytes.
func (r *rule) explain(text, hidden string, limit int) (explanation, bool) {
	at := r.text.FindStringSubmatchIndex(hidden)
	if at == nil {
		return explanation{}, false
	}
	r.applied()
	expand := func(template string) string { return string(r.text.ExpandString(nil, template, text, at)) }
	return explanation{
		message: shorten(expand(r.message), limit), advice: excerpt(expand(r.advice)), late: excerpt(expand(r.late)), transient: r.problem == passing,
		means: r.means, first: expand("${1}"),
	}, true
}

// match returns the result of the first rule that matches the innermost error of the text, or else
// the errors around it. Rules do not see the names in the text, but can quote them.
func match(rules []rule, text string) (explanation, bool) {
	hidden := words(text)
	for _, start := range chain(hidden) {
		for i := range rules {
			if found, ok := rules[i].explain(text[start:], hidden[start:], maxQuoted); ok {
				return found, true
			}
		}
	}
	return explanation{}, false
}

// matchCodes is match for rules that can match the codes of gRPC. The result contains none.
func matchCodes(rules []rule, text string) (explanation, bool) {
	r, ok := match(rules, stripOtherNoise(text))
	r.message = rpcError.ReplaceAllString(r.message, "")
	return r, ok
}

// matchOr is match with a fallback: the text itself with the given advice.
func matchOr(rules []rule, text, advice string) explanation {
	if r, ok := match(rules, text); ok {
		return r
	}
	return explanation{message: usefulEnd(text), advice: advice}
}
