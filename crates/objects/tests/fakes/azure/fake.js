// Azurite until the input ends: takes its arguments.
'use strict';
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
require('azurite/dist/src/blob/main.js');
