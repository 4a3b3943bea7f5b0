// Package calendar tells whether a time falls into a window that comes again, such
// as the nights before working days in Seoul. The windows are those of Alertmanager
// (https://prometheus.io/docs/alerting/latest/configuration/#time_interval), whose
// ranges of times, weekdays and months may also go past midnight, the week's end and
// the year's.
//
// It is pure but for the time zones, which it has of the host or of the binary, and
// knows no clock: who asks gives the time.
package calendar
