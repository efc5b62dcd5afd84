// Makes a container: `node container.js ENDPOINT ACCOUNT KEY CONTAINER`, where ENDPOINT ends with
// the account, as an emulator's does.
'use strict';
const crypto = require('crypto');
const http = require('http');

const [endpoint, account, key, container] = process.argv.slice(2);
const date = new Date().toUTCString();
const version = '2021-12-02';
const path = `${new URL(endpoint).pathname}/${container}`;
// The form of a signature by shared key: the verb, eleven headers that are empty here, those of
// Azure, and what is asked for.
const signed = [
  'PUT', ...Array(11).fill(''), `x-ms-date:${date}`, `x-ms-version:${version}`, `/${account}${path}`, 'restype:container',
].join('\n');
const signature = crypto.createHmac('sha256', Buffer.from(key, 'base64')).update(signed).digest('base64');
const headers = {
  'content-length': 0,
  'x-ms-date': date,
  'x-ms-version': version,
  authorization: `SharedKey ${account}:${signature}`,
};
const request = http.request(`${endpoint}/${container}?restype=container`, { method: 'PUT', headers }, (answer) => {
  answer.resume();
  if (answer.statusCode !== 201) {
    console.error(`expected 201 Created, found ${answer.statusCode} ${answer.statusMessage}`);
    process.exitCode = 1;
  }
});
request.end();
