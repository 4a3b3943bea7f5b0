package podexec

func hasNoShell(Result, error) bool { return false }
