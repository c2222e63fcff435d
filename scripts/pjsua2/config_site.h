/* SPDX-License-Identifier: GPL-3.0-or-later
 * How the gateway's PJSIP is compiled. Everything that is not said here is the library's own default.
 */

/* Legs in one process, and what hangs on their number: two sockets and two places in the bridge for each. */
#define PJSUA_MAX_CALLS         512
#define PJ_IOQUEUE_MAX_HANDLES  4096
#define PJSUA_MAX_CONF_PORTS    1280
#define PJSIP_MAX_DIALOG_COUNT  2047
#define PJSUA_MAX_ACC           64      /* registrations with trunks */
#define PJSIP_MAX_TSX_COUNT     8191    /* a finished call's transactions linger for 32 s */

/* What the gateway does not use is not there to be attacked. */
#define PJMEDIA_HAS_VIDEO       0
#define PJMEDIA_HAS_RTCP_XR     0
#define PJSUA_MAX_PLAYERS       4
#define PJSUA_MAX_RECORDERS     4
#define PJSUA_MAX_BUDDIES       4

/* The bridge passes sound on as it is: levels are the gateway's matter. */
#define PJMEDIA_CONF_USE_AGC    0
